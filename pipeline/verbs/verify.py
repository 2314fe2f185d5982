"""`verify`: proves a sample of an output again, against the input, at the precision stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arguments import OPTIONS, Arguments, keep_to_groups
from pipeline.columns import OUTCOMES, State
from pipeline.config import Config, amend, from_plain, read_sink_options
from pipeline.errors import Misuse, ReadError
from pipeline.job import Setup, prepare
from pipeline.labels import name_block, name_matrix
from pipeline.lease import Lease
from pipeline.output import SHOWN, Output
from pipeline.places import Remote
from pipeline.plan import Block
from pipeline.provenance import list_differences
from pipeline.sink import read_block
from pipeline.site import locate_output

log = logging.getLogger("eigenstream")
SAMPLE = 1000
BLOCKS = 64
"""Blocks that a sample is spread over at most, since a block is read whole."""
PROVEN = tuple(OUTCOMES.index(name) for name in ("ok", "repaired", "unchecked"))


@dataclass
class Report:
    """What a verification found.

    Attributes
    ----------
    checked : int
        Matrices checked.
    worst : float
        Largest residual, in units of n eps.
    failed : list of str
        One line for each matrix, or unreadable block, that fails.
    damaged : dict of Block to str
        Blocks whose stored results cannot be trusted, and why. They are marked as lost.
    """

    checked: int = 0
    worst: float = 0.0
    failed: list[str] = field(default_factory=list)
    damaged: dict[Block, str] = field(default_factory=dict)


def main(arguments: Arguments) -> int:
    """Verify an output; exit code 1 if anything fails."""
    flags = arguments.flags
    path = locate_output(str(arguments.target), read_sink_options(arguments))
    sample = None if flags.get("all") else int(flags.get("sample", SAMPLE))
    keep_to_groups(arguments, ("source", OPTIONS), "verify takes the run's own config")
    config = amend(
        from_plain(Output.open(path).stored["config"]), arguments.overrides, arguments.config_dir
    )
    report = verify(path, sample=sample, seed=int(flags.get("seed", 0)), config=config)
    for line in report.failed[:20]:
        print(f"FAILED    {line}")
    if len(report.failed) > 20:
        print(f"          … and {len(report.failed) - 20} more")
    if report.damaged:
        print(
            f"damaged   {len(report.damaged)} blocks, to be written again by the same `run` command"
        )
    print(
        f"verified  {report.checked} matrices, worst residual {report.worst:.3g} units of n eps, "
        f"{len(report.failed)} failed"
    )
    return int(bool(report.failed))


def verify(
    path: str | Path | Remote,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    config: Config | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Check stored results against the input.

    Parameters
    ----------
    path : path
        The output.
    sample : int or None
        How many matrices, drawn at random from up to 64 blocks; None: all.
    seed : int
        Seed of the draw.
    config : Config, optional
        The run's config with another `source.path`, for an input that has moved.
    storage_options : mapping, optional
        How the object store of the output is opened.

    Returns
    -------
    Report
        Counts, the worst residual, and what failed.

    Raises
    ------
    Misuse
        If there is no output at `path`, or the input is not the one that was solved.
    """
    place = path if isinstance(path, Remote) else locate_output(str(path), storage_options)
    output = Output.open(place)
    setup = prepare(config or from_plain(output.stored["config"]))
    if "eigenvalues" not in output.names:
        raise Misuse(f"{output.path} holds no eigenvalues to verify: sink.variables left them out")
    if sample is not None and sample < 1:
        raise Misuse(f"sample: got {sample}, expected 1 or more, or None for all")
    differences = list(list_differences(output.stored["identity"], setup.identity))
    if differences:
        raise Misuse(
            "the input is not the one that was solved (stored -> now): "
            + "; ".join(differences[:SHOWN])
        )
    report = Report()
    for block, wanted in draw_sample(output, sample, seed):
        name = name_block(block, output.dims, setup.layout.coords)
        try:
            stored = read_stored(output, block)
        except OSError as error:
            report.failed.append(f"{name}: {error}")
            if not is_silence(output, error):
                report.damaged[block] = str(error)
            continue
        try:
            check_block(setup, output, block, stored, wanted, seed, report)
        except OSError as error:  # of the input
            report.failed.append(f"{name}: {error}")
    give_back(output, report)
    return report


def is_silence(output: Output, error: OSError) -> bool:
    """Whether a store gave no answer, which says nothing of what it holds."""
    return isinstance(output.path, Remote) and isinstance(error.__cause__, OSError)


def give_back(output: Output, report: Report) -> None:
    """Mark damaged blocks as lost, so that the run's command writes them again."""
    if not report.damaged:
        return
    try:
        with Lease(output.ledger.folder) as lease, output.ledger.marking(lease.ticket):
            for block, error in report.damaged.items():
                output.ledger.mark_lost(block, f"found by verify: {error}")
    except (Misuse, OSError) as error:  # somebody is writing there, or nobody can
        log.warning("damaged blocks could not be marked as lost: %s", error)


def draw_sample(
    output: Output, sample: int | None, seed: int
) -> Iterator[tuple[Block, int | None]]:
    """Draw blocks, each with how many of its matrices to check (None: all)."""
    done = output.ledger.columns["state"] == State.done
    blocks = [block for block in output.ledger.blocks if done[block.index]]
    if sample is None:
        yield from ((block, None) for block in blocks)
        return
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(blocks))[: min(BLOCKS, sample)]
    shares = np.diff(np.arange(len(chosen) + 1) * sample // max(1, len(chosen)))
    for i, share in sorted(zip(chosen.tolist(), shares.tolist(), strict=True)):
        yield blocks[i], share


def read_stored(output: Output, block: Block) -> dict[str, NDArray[Any]]:
    """Read what is stored of one block; raises ReadError where it is not what was written."""
    stored = {k: read_block(output.path, v, block) for k, v in output.names.items()}
    check_counts(stored["status"], output, block)
    return stored


def check_block(
    setup: Setup,
    output: Output,
    block: Block,
    stored: dict[str, NDArray[Any]],
    wanted: int | None,
    seed: int,
    report: Report,
) -> None:
    """Check (some of) the matrices of one block, and add what was found to `report`."""
    proven = np.argwhere(np.isin(stored["status"], PROVEN))
    if wanted is not None and len(proven) > wanted:
        rng = np.random.default_rng([seed, block.index])
        proven = proven[np.sort(rng.permutation(len(proven))[:wanted])]
    if len(proven) == 0:
        return
    todo = np.zeros(block.shape, bool)
    at = tuple(proven.T) if block.shape else ()
    todo[at] = True
    matrices, _ = setup.source.read(block, todo)
    turn = slice(None, None, -1 if setup.solver.descending else 1)
    picked = {k: v[todo] for k, v in stored.items()}
    from kernels import THRESHOLD as threshold

    residual = measure_residual(
        setup,
        setup.solver.as_solved(matrices[todo]),
        picked["eigenvalues"][..., turn],
        picked["eigenvectors"][..., turn] if "eigenvectors" in picked else None,
    )
    report.checked += len(residual)
    report.worst = max(report.worst, float(np.nanmax(residual, initial=0.0)))
    for where in np.flatnonzero(~(residual <= threshold)):
        index = tuple(int(a + b) for a, b in zip(block.start, proven[where], strict=True))
        name = name_matrix(index, output.dims, setup.layout.coords)
        report.failed.append(f"{name}: residual {residual[where]:.3g}")
        report.damaged.setdefault(block, report.failed[-1])


def check_counts(status: NDArray[Any], output: Output, block: Block) -> None:
    """Raise ReadError unless the stored statuses are those that were counted when solved."""
    found = np.bincount(status.ravel(), minlength=len(OUTCOMES))
    expected = output.ledger.columns["counts"][block.index]
    if not np.array_equal(found, expected):
        raise ReadError(
            f"the stored status is not what the ledger counted: {found.tolist()} against "
            f"{expected.tolist()}; part of it was lost or changed"
        )


def measure_residual(
    setup: Setup, a: NDArray[Any], values: NDArray[Any], vectors: NDArray[Any] | None
) -> NDArray[np.floating[Any]]:
    """Measure residuals in units of n eps: of the pairs, and where there are no vectors, or not
    all pairs, the distance from the values that numpy's LAPACK finds."""
    from kernels import verify as prove

    parts = []
    if vectors is not None:
        parts.append(np.asarray(prove(a, values, vectors, mode="full")))
    if vectors is None or setup.solver.subset is not None:
        parts.append(compare_values(setup, a, values))
    return np.asarray(np.max(parts, axis=0))


def compare_values(setup: Setup, a: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Distance of stored eigenvalues from those of numpy's LAPACK, over n eps N."""
    lo, hi = setup.solver.subset or (0, setup.solver.n)
    size = np.abs(a).max(axis=(-1, -2)).astype(np.float64)
    scale = np.exp2(-np.floor(np.log2(np.where(size > 0, size, 1.0))))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    again = np.linalg.eigvalsh(a.astype(wide) * scale[:, None, None], UPLO="L")
    error = np.abs(values * scale[:, None] - again[..., lo:hi]).max(axis=-1)
    norm = np.maximum(np.abs(again).max(axis=-1), size * scale)
    eps = np.finfo(values.dtype).eps
    return np.asarray(error / (setup.solver.n * eps * np.where(norm > 0, norm, 1.0)))
