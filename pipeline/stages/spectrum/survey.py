"""First look at stored eigenvalues: extremes, where they occur, and how much they weigh.

Every quantity is a minimum, or a sum of integers, so that the parts of a stack can be surveyed
and merged in any order and grouping with the same bits in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.plan import Block

USABLE = (0, 1, 9)
"""Status codes of matrices that have eigenvalues: ok, repaired, unchecked."""


@dataclass(frozen=True, eq=False)
class Lowest:
    """The smallest of a series of numbers, and the matrix it belongs to.

    Attributes
    ----------
    value : ndarray of float64
        Smallest value; +inf where there was none.
    where : ndarray of int64, same shape
        Flat C-order index of its matrix in the whole stack, the lowest among equals; -1 where
        there was none.
    """

    value: NDArray[np.float64]
    where: NDArray[np.int64]

    def merge(self, other: Lowest) -> Lowest:
        """Return the lower of both, element by element."""
        take = (other.value < self.value) | (
            (other.value == self.value) & (other.where < self.where)
        )
        return Lowest(
            np.where(take, other.value, self.value), np.where(take, other.where, self.where)
        )


@dataclass(frozen=True, eq=False)
class Survey:
    """What a first pass over (part of) a stack of `m` bands finds.

    Attributes
    ----------
    bottom : Lowest, shape (m,)
        Each band's smallest eigenvalue.
    top : Lowest, shape (m,)
        Each band's largest eigenvalue, with the sign changed.
    gap : Lowest, shape (m - 1,)
        Smallest distance in one matrix between a band and the next.
    used : int
        Number of matrices that have eigenvalues.
    weight : int
        Sum of their weights, in units of the run's smallest step (see `weigh`).
    """

    bottom: Lowest
    top: Lowest
    gap: Lowest
    used: int
    weight: int

    @property
    def minimum(self) -> float:
        """Smallest eigenvalue of all; +inf when no matrix was used."""
        return float(self.bottom.value.min())

    @property
    def maximum(self) -> float:
        """Largest eigenvalue of all; -inf when no matrix was used."""
        return float(-self.top.value.min())

    def merge(self, other: Survey) -> Survey:
        """Return the survey of both parts; associative and commutative to the last bit."""
        return Survey(
            self.bottom.merge(other.bottom),
            self.top.merge(other.top),
            self.gap.merge(other.gap),
            self.used + other.used,
            self.weight + other.weight,
        )


def empty_survey(bands: int) -> Survey:
    """Return the survey of no matrices at all."""

    def none(size: int) -> Lowest:
        return Lowest(np.full(size, np.inf), np.full(size, -1, np.int64))

    return Survey(none(bands), none(bands), none(bands - 1), 0, 0)


def select_usable(values: NDArray[Any], status: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which matrices count: those with a valid status and finite eigenvalues throughout.

    Parameters
    ----------
    values : ndarray, shape (*batch, m)
    status : ndarray of uint8, shape batch

    Returns
    -------
    ndarray of bool, shape batch
    """
    finite: NDArray[np.bool_] = np.isfinite(values).all(axis=-1)
    return np.asarray(np.isin(status, USABLE) & finite)


def survey(
    values: NDArray[Any],
    status: NDArray[Any],
    weights: NDArray[np.int64],
    block: Block,
    shape: Sequence[int],
) -> Survey:
    """Survey one block.

    Parameters
    ----------
    values : ndarray, shape (*block.shape, m)
        Eigenvalues, ascending.
    status : ndarray of uint8, shape block.shape
    weights : ndarray of int64, shape block.shape
        From `weigh`.
    block : Block
        Where these matrices lie in the stack.
    shape : sequence of int
        Batch shape of the whole stack.
    """
    usable = select_usable(values, status)
    found = values[usable].astype(np.float64)
    if len(found) == 0:
        return empty_survey(values.shape[-1])
    inside = np.flatnonzero(usable)

    def find_lowest(series: NDArray[np.float64]) -> Lowest:
        # C order inside a block is C order in the stack too, so argmin's first is the lowest.
        at = series.argmin(axis=0)
        return Lowest(
            np.take_along_axis(series, at[None], axis=0)[0], flatten(inside[at], block, shape)
        )

    with np.errstate(over="ignore"):  # two float64 can lie further apart than the largest one
        gaps = np.diff(found, axis=-1)
    return Survey(
        find_lowest(found),
        find_lowest(-found),
        find_lowest(gaps),
        len(found),
        int(weights[usable].sum()),
    )


def flatten(inside: NDArray[Any], block: Block, shape: Sequence[int]) -> NDArray[np.int64]:
    """Turn flat positions in a block into flat positions in a stack of `shape`."""
    if not shape:
        return np.zeros(inside.shape, np.int64)
    parts = np.unravel_index(inside, block.shape)
    moved = tuple(part + start for part, start in zip(parts, block.start, strict=True))
    return np.asarray(np.ravel_multi_index(moved, tuple(shape)), np.int64)
