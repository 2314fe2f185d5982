"""A stack that is computed where it is needed: a formula at the points of a mesh or a path."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.plan import Block
from pipeline.sources.points import Points
from pipeline.sources.tiles import Build, choose_tile, fill_tiles

PIECE = 2**20
"""Bytes of matrices that the plan does not cut further."""


class Computed:
    """Matrices at points; attributes and methods as of `source.Source`.

    Picklable: it holds the points and the formula.

    Parameters
    ----------
    points : Points
    build : callable
        From a tile of points to as many matrices; picklable.
    n, dtype
        Size and element type of a matrix.
    name, row_dim : str
    attrs : dict
        The matrices' attributes, such as their units.
    origin : dict
        What makes the formula this formula, JSON-able; without where it lies.
    held : int
        Bytes that the formula holds in every worker.
    rows : sequence of str, optional
        Labels of the rows.
    """

    def __init__(
        self,
        points: Points,
        build: Build,
        *,
        n: int,
        dtype: np.dtype[Any],
        name: str,
        row_dim: str,
        attrs: dict[str, Any],
        origin: dict[str, Any],
        held: int = 0,
        rows: Sequence[str] | None = None,
    ) -> None:
        self._points, self._build, self._origin = points, build, origin
        self.dims, self.shape = points.dims, points.shape
        self.n, self.dtype, self.stored_dtype = n, dtype, dtype
        self.name, self.row_dim, self.attrs = name, row_dim, attrs
        self.coords: xr.Dataset = points.coords
        if rows is not None:
            self.coords = self.coords.assign_coords({row_dim: np.array(rows, dtype=object)})
        piece = cut_piece(self.shape, n * n * dtype.itemsize)
        self.chunks = tuple(map(divide, self.shape, piece))
        self.chunk_bytes = (prod(piece) + choose_tile(n)) * n * n * dtype.itemsize + held

    def todo(self, block: Block) -> None:
        """Which matrices of a block to solve: all."""

    def read(
        self, block: Block, todo: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Compute the matrices of a block (those of `todo`; the others are 0); none is missing."""
        numbers, points = self._points.take(block)
        values = np.zeros((block.size, self.n, self.n), self.dtype)
        if todo is None:
            fill_tiles(numbers, points, self._build, values)
        else:
            wanted = np.flatnonzero(todo.ravel())
            part = np.empty((len(wanted), self.n, self.n), self.dtype)
            fill_tiles(numbers[wanted], points[wanted], self._build, part)
            values[wanted] = part
        return values.reshape(*block.shape, self.n, self.n), np.zeros(block.shape, bool)

    def identity(self) -> dict[str, Any]:
        """What makes this input this input: the formula and the points."""
        return {**self._origin, "points": self._points.identify()}


def cut_piece(shape: Sequence[int], matrix_bytes: int) -> tuple[int, ...]:
    """Choose pieces of about `PIECE` bytes, whole along the last dimensions."""
    left, piece = max(1, PIECE // matrix_bytes), []
    for size in reversed(shape):
        piece.append(max(1, min(size, left)))
        left = max(1, left // piece[-1])
    return tuple(reversed(piece))


def divide(size: int, piece: int) -> tuple[int, ...]:
    """Divide an extent into pieces, the last one shorter."""
    return tuple(min(piece, size - start) for start in range(0, size, piece))
