"""Positions to read along a dimension: a range, or any integers in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = range | npt.NDArray[np.int64]
Selection = slice | npt.NDArray[np.int64]


def ascend(positions: Sequence[Positions]) -> tuple[tuple[Selection, ...], list[Selection]]:
    """Ascending selections of the same positions, which is all that zarr-python takes, and how to
    restore their order."""
    picks, orders = zip(*map(_ascend_one, positions), strict=True)
    return picks, list(orders)


def _ascend_one(p: Positions) -> tuple[Selection, Selection]:
    if isinstance(p, range):
        if p.step > 0:
            return slice(p.start, p[-1] + 1, p.step), slice(None)
        return slice(p[-1], p[0] + 1, -p.step), slice(None, None, -1)
    unique, inverse = np.unique(p, return_inverse=True)
    if unique.size == p.size and bool((unique == p).all()):
        return unique, slice(None)
    return unique, inverse.reshape(-1)


def restore(values: npt.NDArray[Any], orders: Sequence[Selection]) -> npt.NDArray[Any]:
    """Restore the order of what was read at ascending positions."""
    for axis, order in enumerate(orders):
        if not isinstance(order, slice):
            values = values.take(order, axis=axis)
        elif order.step is not None:
            values = np.flip(values, axis)
    return values


def walk_cells(
    positions: Sequence[Positions], extents: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], list[range]]]:
    """Cells of a grid that hold any of these positions, each with all positions in it."""
    touched = [
        np.unique(np.asarray(p) // c).tolist() for p, c in zip(positions, extents, strict=True)
    ]
    for cell in product(*touched):
        corners = zip(cell, extents, shape, strict=True)
        yield cell, [range(i * c, min((i + 1) * c, n)) for i, c, n in corners]
