"""The columns of the ledger: what is noted of each block, and what the numbers in it mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pipeline.plan import Block

OUTCOMES = (
    "ok",
    "repaired",
    "nonfinite",
    "not_hermitian",
    "missing",
    "failed",
    "masked",
    "not_run",
    "not_positive_definite",
    "unchecked",
)
"""Meanings of the status codes 0, 1, …, as `kernels.Status` numbers them."""
BAD = tuple(
    OUTCOMES.index(name)
    for name in ("nonfinite", "not_hermitian", "missing", "failed", "not_positive_definite")
)
MASKED, NOT_RUN = OUTCOMES.index("masked"), OUTCOMES.index("not_run")


class State(IntEnum):
    """Where a block stands. `lost` is tried again on resume, `quarantined` only when asked."""

    todo = 0
    done = 1
    lost = 2
    quarantined = 3


@dataclass(frozen=True)
class Entry:
    """What a worker reports of one block it has written.

    Attributes
    ----------
    block : Block
        The block.
    counts : tuple of int
        Number of matrices for each status code.
    seconds : tuple of float
        Wall time reading, solving and writing.
    driver, device : str
        What solved it.
    """

    block: Block
    counts: tuple[int, ...]
    seconds: tuple[float, float, float]
    driver: str
    device: str


COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "state": ("u1", ()),
    "matrices": ("<i8", ()),
    "counts": ("<i8", ("outcome",)),
    "seconds": ("<f8", ("phase",)),
    "finished": ("<f8", ()),
    "driver": ("u1", ()),
    "device": ("u1", ()),
}
"""Columns that are marked block by block: dtype, and dimensions after `block`."""
DRIVERS = ("none", "lapack", "lanes", "cusolver", "torch", "scipy")
DEVICES = ("none", "cpu", "cuda", "xpu")
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "state": {"flag_values": list(range(4)), "flag_meanings": " ".join(s.name for s in State)},
    "matrices": {"long_name": "matrices dealt with, masked ones included"},
    "counts": {"long_name": "matrices by status code", "outcome_meanings": " ".join(OUTCOMES)},
    "seconds": {"long_name": "wall time", "units": "s", "phase_meanings": "read solve write"},
    "finished": {"long_name": "when the block was marked, seconds since 1970-01-01 UTC"},
    "driver": {"flag_values": list(range(len(DRIVERS))), "flag_meanings": " ".join(DRIVERS)},
    "device": {"flag_values": list(range(len(DEVICES))), "flag_meanings": " ".join(DEVICES)},
}
SIZES = {"outcome": len(OUTCOMES), "phase": 3}
RECORD = np.dtype(
    [("block", "<i8"), *((n, t, tuple(SIZES[d] for d in dims)) for n, (t, dims) in COLUMNS.items())]
)
"""A block's row, as the journal keeps it."""
