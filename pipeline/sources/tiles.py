"""Tiles of points: a formula is evaluated at a fixed number of them together.

A matrix product's last bits depend on its shape, on how many rows it has and on which of them a
point is (BLAS takes other code at edges), and so do vectorised sines. Here every call has the same
shape, and a point always lies at the same place in it, whatever block asks for it: its number in
the stack, modulo the tile. So the bits of a matrix depend on the matrix alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 512
"""Points evaluated together, if their matrices are small."""
NEAR_BYTES, MOST_BYTES = 2**20, 2**26
"""Bytes of complex matrices that stay near the core, and that a tile takes at most."""

Build = Callable[[NDArray[np.float64]], NDArray[Any]]
"""From a tile of points to as many matrices."""


def choose_tile(n: int) -> int:
    """Choose how many points are evaluated together, by the size of a matrix alone.

    The rule: `TILE`, halved down to 64 while they take more than `NEAR_BYTES` (512 up to n = 11,
    64 from n = 23 on), and further while they take more than `MOST_BYTES` (from n = 257 on).
    """
    size = TILE
    while size > 1 and 16 * size * n * n > (NEAR_BYTES if size > 64 else MOST_BYTES):
        size //= 2
    return size


def fill_tiles(
    numbers: NDArray[np.int64], points: NDArray[np.float64], build: Build, out: NDArray[Any]
) -> None:
    """Evaluate `build` at points, each at its own place in a tile.

    Parameters
    ----------
    numbers : array of int64, (count,)
        The points' numbers in the stack.
    points : array of float64, (count, axes)
    build : callable
    out : array, (count, n, n)
        Filled.
    """
    if not len(numbers):
        return
    size = choose_tile(out.shape[-1])
    places = numbers % size
    for chosen in deal(places):
        tile = np.repeat(points[chosen[:1]], size, axis=0)  # a gap repeats a point that is valid
        tile[places[chosen]] = points[chosen]
        out[chosen] = build(tile)[places[chosen]]


def deal(places: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Deal entries out to hands in which no place comes twice: as few hands as that takes."""
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    first = np.searchsorted(ranked, ranked, side="left")
    turn = np.empty(len(places), np.int64)
    turn[order] = np.arange(len(places)) - first
    by_turn = np.argsort(turn, kind="stable")
    edges = np.searchsorted(turn[by_turn], np.arange(1, turn.max() + 1))
    return np.split(by_turn, edges)
