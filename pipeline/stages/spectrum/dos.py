"""Gaussian-broadened density of states, summed over a stack in whole numbers.

Each eigenvalue is shared out over the six nearest points of a fine grid (spacing width / 32) in
whole numbers, with the weights of Lagrange's interpolation, and the grid is broadened when all
are counted. The interpolation error is below 1e-10 of the Gaussian's peak; a count uses only
+, - and * of float64, rounding and sums of int64, so it does not depend on how the stack is cut,
nor on the machine's exp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pipeline.stages.spectrum.grid import FINE, REACH, Grid
from pipeline.stages.spectrum.survey import select_usable

NODES = (-2, -1, 0, 1, 2, 3)
"""Points of the counting grid that share an eigenvalue, from the one just below it."""
TILE = 1 << 15
"""Eigenvalues, or grid elements, that are worked on at a time; changes no result."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Weighted eigenvalues of (part of) a stack, in units of the smallest weight step.

    Attributes
    ----------
    shares : ndarray of int64, shape (grid.bins,)
        What falls to each point of the counting grid.
    below : int
        What lies below the counting grid.
    """

    shares: NDArray[np.int64]
    below: int

    def merge(self, other: Counts) -> Counts:
        """Return the counts of both parts; exact."""
        return Counts(self.shares + other.shares, self.below + other.below)


def count_states(
    values: NDArray[Any], status: NDArray[Any], weights: NDArray[np.int64], grid: Grid
) -> Counts:
    """Share the eigenvalues of a block out over the counting grid.

    Parameters
    ----------
    values : ndarray, shape (*batch, m)
    status : ndarray of uint8, shape batch
    weights : ndarray of int64, shape batch
        From `weigh`; the sum over a stack of `m` times these must fit int64.
    grid : Grid
    """
    usable = select_usable(values, status)
    found = values[usable].astype(np.float64).ravel()
    weight = np.repeat(weights[usable].ravel(), values.shape[-1])
    below = found < grid.origin
    inside = ~below & (found <= grid.limit)
    shares = np.zeros(grid.bins, np.int64)
    energies, portions = found[inside], weight[inside]
    for i in range(0, len(energies), TILE):
        share_out(energies[i : i + TILE], portions[i : i + TILE], grid, shares)
    return Counts(shares, int(weight[below].sum()))


def share_out(
    values: NDArray[np.float64],
    weights: NDArray[np.int64],
    grid: Grid,
    shares: NDArray[np.int64],
) -> None:
    """Add the shares of some eigenvalues (count,) to `shares`, in place.

    Each node gets its Lagrange weight, rounded; the node below the value gets what is left, so
    that every eigenvalue counts exactly once.
    """
    position = (values - grid.origin) / grid.step
    whole = np.floor(position)
    part = position - whole
    first = whole.astype(np.int64) + 3
    left = weights.copy()
    for node in NODES:
        if node == 0:
            continue
        factor = np.full_like(part, 1.0)
        for other in NODES:
            if other != node:
                factor *= (part - other) / (node - other)
        share = np.rint(weights * factor).astype(np.int64)
        np.add.at(shares, first + node, share)
        left -= share
    np.add.at(shares, first, left)


def broaden(
    counts: Counts, grid: Grid, energy: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Broaden counts with the Gaussian.

    Parameters
    ----------
    counts : Counts
    grid : Grid
    energy : ndarray, shape (points,)
        Where to; of the grid's range.

    Returns
    -------
    dos, idos : ndarray of float64, shape (points,)
        Density (in units of 1 / energy) and its integral from minus infinity, in weight steps.
    """
    # Padded by a reach on both sides, every energy sees a window of one size.
    reach = REACH * FINE + 1
    size = 2 * reach + 1
    padded = np.pad(counts.shares, size).astype(np.float64)
    passed = np.concatenate([[0], np.cumsum(np.pad(counts.shares, size))])
    zero = grid.origin - (3 + size) * grid.step  # energy of padded[0]
    nearest = np.rint(np.clip((energy - zero) / grid.step, reach, len(padded) - 1 - reach))
    first = nearest.astype(np.int64) - reach
    dos, idos = np.empty(len(energy)), np.empty(len(energy))
    rows = max(TILE // size, 1)
    for i in range(0, len(energy), rows):
        index = first[i : i + rows, None] + np.arange(size)
        distance = (energy[i : i + rows, None] - (zero + index * grid.step)) / grid.width
        part = padded[index]
        dos[i : i + rows] = (part * np.exp(-0.5 * distance * distance)).sum(axis=-1)
        idos[i : i + rows] = (part * ndtr(distance)).sum(axis=-1)
    dos /= grid.width * math.sqrt(2 * math.pi)
    # Far out, the rounding of shares can leave a trace below zero.
    return np.maximum(dos, 0.0), idos + passed[first] + counts.below
