"""The verdict on a run: how many matrices are bad, which, why, and what it means."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pipeline.columns import BAD, OUTCOMES, State
from pipeline.labels import name_block, name_matrix
from pipeline.ledger import Ledger, within_limit
from pipeline.places import Place
from pipeline.plan import Block
from pipeline.sink import read_block

log = logging.getLogger("eigenstream")
LISTED = 20
EARLY = 1000
"""Unmasked matrices after which a run that is mostly flagged is stopped."""
CAUSES = {
    "nonfinite": "they hold NaN or Inf; leave them out with source.mask",
    "not_hermitian": (
        "A differs from its conjugate transpose by more than solve.hermitian_tol; if only one "
        "triangle is filled say solve.hermitian=lower (or upper), if it is rounding say "
        "solve.hermitian=average, and make sure that source.matrix_dims names the right dimensions"
    ),
    "missing": (
        "their chunks are absent; source.missing=fill takes absent chunks as the fill value"
    ),
    "failed": "no driver gave an answer that passes the check; try solve.dtype=float64",
    "not_positive_definite": "B is not positive definite",
}


@dataclass(frozen=True)
class Verdict:
    """What a run came to.

    Attributes
    ----------
    counts : Mapping of str to int
        Matrices by status.
    lost : int
        Matrices in blocks that could not be done.
    left : int
        Matrices in blocks that are still to be done.
    allowed : int
        How many bad ones `run.max_bad` allows.
    """

    counts: Mapping[str, int]
    lost: int
    left: int
    allowed: int

    @property
    def bad(self) -> int:
        """Matrices without a valid answer that should have one."""
        return sum(self.counts[OUTCOMES[code]] for code in BAD) + self.lost

    @property
    def code(self) -> int:
        """Exit code: 0, or 1 if more is bad than allowed."""
        return int(self.bad > self.allowed)

    def __str__(self) -> str:
        parts = [f"{count} {name}" for name, count in self.counts.items() if count]
        parts += [f"{self.lost} in lost blocks"] if self.lost else []
        parts += [f"{self.left} still to be done"] if self.left else []
        return ", ".join(parts) or "no matrices"


def reach_verdict(ledger: Ledger, max_bad: float) -> Verdict:
    """Judge a run by its ledger."""
    counts = ledger.count_statuses()
    state = ledger.columns["state"]
    sizes = np.array([block.size for block in ledger.blocks], np.int64)
    lost = int(sizes[np.isin(state, (State.lost, State.quarantined))].sum())
    left = int(sizes[state == State.todo].sum())
    return Verdict(counts, lost, left, allow_bad(max_bad, count_unmasked(counts) + lost))


def allow_bad(max_bad: float, unmasked: int) -> int:
    """Turn `run.max_bad`, a count or a fraction below 1, into a count."""
    # 0.29 of 100 is 28.999999999999996 in binary
    return int(max_bad if max_bad >= 1 else max_bad * unmasked * (1 + 1e-12))


def count_unmasked(counts: Mapping[str, int]) -> int:
    """Count the matrices that were to be solved."""
    return sum(count for name, count in counts.items() if name not in ("masked", "not_run"))


def find_early_end(counts: Mapping[str, int], max_bad: float, total: int) -> str | None:
    """Explain why a run should stop after its first matrices; None where it should go on.

    The rule: at least 1,000 unmasked matrices are done, more than half of them
    are bad, and they are already more than `run.max_bad` allows.
    """
    seen = count_unmasked(counts)
    bad = {OUTCOMES[code]: counts[OUTCOMES[code]] for code in BAD}
    if seen < EARLY or 2 * sum(bad.values()) <= seen:
        return None
    if sum(bad.values()) <= allow_bad(max_bad, total):
        return None
    return (
        f"{sum(bad.values())} of the first {seen} matrices are flagged, {explain_cause(counts)}. "
        f"What changes the solve needs another sink.path, or sink.overwrite=true. To go on all "
        f"the same, say how many may be bad: run.max_bad=0.9 (a fraction), or a count"
    )


def explain_cause(counts: Mapping[str, int]) -> str:
    """Name the commonest reason why matrices are bad, and the key that would help."""
    bad = {OUTCOMES[code]: counts[OUTCOMES[code]] for code in BAD}
    cause = max(bad, key=lambda name: bad[name])
    return f"{bad[cause]} of them {cause}: {CAUSES[cause]}"


def explain_bad(verdict: Verdict) -> str:
    """Explain the exit code 1."""
    text = f"{verdict.bad} matrices are bad, run.max_bad allows {verdict.allowed}: exit code 1"
    return text if verdict.bad == verdict.lost else f"{text}. {explain_cause(verdict.counts)}"


def list_flagged(
    path: Place, ledger: Ledger, status: str, dims: tuple[str, ...], coords: xr.Dataset
) -> list[str]:
    """Name the flagged matrices by their coordinates, up to LISTED of them."""
    counts = ledger.columns["counts"][:, BAD].sum(axis=1)
    lines: list[str] = []
    for index in np.flatnonzero(counts):
        block = ledger.blocks[index]
        codes = read_block(path, status, block)
        for at in np.argwhere(np.isin(codes, BAD)):
            if len(lines) == LISTED:
                return [*lines, f"… and {int(counts.sum()) - LISTED} more (see `{status}`)"]
            where = tuple(int(a + b) for a, b in zip(block.start, at, strict=True))
            lines.append(f"{OUTCOMES[codes[tuple(at)]]}: {name_matrix(where, dims, coords)}")
    return lines


def list_lost(ledger: Ledger, dims: tuple[str, ...], coords: xr.Dataset) -> list[str]:
    """Name the blocks that could not be done, with the error, up to LISTED of them."""
    failures = ledger.read_failures()
    given_up = ledger.columns["state"] == State.quarantined
    lines = [
        f"{'given up' if given_up[index] else 'lost'}: "
        f"{name_block(ledger.blocks[index], dims, coords)}: {error}"
        for index, error in sorted(failures.items())
    ]
    more = [f"… and {len(lines) - LISTED} more blocks"] if len(lines) > LISTED else []
    if lines:
        more.append(
            "the same command tries lost blocks again; those given up, because they killed their "
            "worker each time, only with run.retry_failed=true"
        )
    return lines[:LISTED] + more


def start_status(
    block: Block, shape: tuple[int, ...], limit: int | None, todo: np.ndarray | None
) -> np.ndarray:
    """Say of each matrix of a block whether it is to be solved (0), masked, or left out."""
    status = np.zeros(block.shape, np.uint8)
    if todo is not None:
        status[~todo] = OUTCOMES.index("masked")
    if limit is not None:
        status[~within_limit(block, shape, limit)] = OUTCOMES.index("not_run")
    return status
