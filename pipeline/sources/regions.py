"""Arrays of one flag a matrix and one flag a chunk: from one to the other, and into rectangles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

Bools = npt.NDArray[np.bool_]
Edges = npt.NDArray[np.int64]


def gather_runs(flags: Bools, edges: Sequence[Edges]) -> Bools:
    """One flag a run: whether any of the run's matrices is flagged."""
    for axis, e in enumerate(edges):
        flags = np.logical_or.reduceat(flags, e[:-1], axis=axis)
    return flags


def spread_runs(flags: Bools, edges: Sequence[Edges]) -> Bools:
    """One flag a matrix: that of its run."""
    for axis, e in enumerate(edges):
        flags = flags.repeat(np.diff(e), axis=axis)
    return flags


def find_rectangles(flags: Bools) -> Iterator[tuple[slice, ...]]:
    """Cut the set flags into disjoint rectangles, few when the flags cluster."""
    if not flags.any():
        return
    if flags.all():
        yield tuple(slice(0, n) for n in flags.shape)
    elif flags.ndim == 1:
        ends = np.flatnonzero(np.diff(flags, prepend=False, append=False))
        yield from ((slice(int(a), int(b)),) for a, b in ends.reshape(-1, 2))
    else:
        for i, row in enumerate(flags):
            for rest in find_rectangles(row):
                yield (slice(i, i + 1), *rest)


def describe_region(dims: Sequence[str], slices: Sequence[slice], coords: xr.Dataset) -> str:
    """A region for a message: positions along every dimension, and labels where there are any."""
    parts = []
    for dim, s in zip(dims, slices, strict=True):
        text = f"{dim} {s.start}:{s.stop}"
        if dim in coords.variables and s.stop > s.start:
            labels = coords[dim].to_numpy()[s]
            text += f" ({_show(labels[0])} to {_show(labels[-1])})"
        parts.append(text)
    return ", ".join(parts) or "the single matrix"


def _show(label: Any) -> str:
    return repr(str(label)) if isinstance(label, str) else str(label)
