"""Covariances of samples, in an order of sums that depends on their shape alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.sources.panels import multiply


@dataclass(frozen=True)
class Moments:
    """How a matrix is made of a window's samples.

    Attributes
    ----------
    demean : bool
        Subtract the mean of each channel in the window.
    ddof : int
        What is taken from the number of samples in the divisor.
    nan : str
        `flag`: a window with NaN has no matrix; `drop-sample`: samples with NaN are left out;
        `pairwise`: each element takes the samples where both channels are there.
    correlation : bool
        Divide by the standard deviations.
    """

    demean: bool
    ddof: int
    nan: str
    correlation: bool

    def __call__(self, samples: NDArray[Any]) -> NDArray[Any] | None:
        """Compute the matrix of samples (count, channels); None where there is none.

        C_ij = sum_t (x_ti - m_i) conj(x_tj - m_j) / (count - ddof).
        """
        there = ~np.isnan(samples)
        if not there.all():
            if self.nan == "flag":
                return None
            if self.nan == "pairwise":
                return self._finish(sum_pairwise(samples, there, self.demean, self.ddof))
            there &= there.all(axis=1, keepdims=True)
        return self._finish(self._sum_whole(samples, there))

    def _sum_whole(self, samples: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[Any] | None:
        count = int(there[:, 0].sum())
        if count <= self.ddof:
            return None
        x = np.where(there, samples, 0)
        if self.demean:
            x = np.where(there, x - x.sum(axis=0) / count, 0)
        return sum_products(x, x) / (count - self.ddof)

    def _finish(self, c: NDArray[Any] | None) -> NDArray[Any] | None:
        if c is None:
            return None
        c = (c + c.T.conj()) / 2  # products of panels may differ in the last bit
        if not self.correlation:
            return np.asarray(c)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = 1 / np.sqrt(np.diagonal(c).real)
            scaled = c * scale[:, None] * scale
        np.fill_diagonal(scaled, np.where(np.isfinite(scale), 1.0, np.nan))
        return np.asarray(scaled)


def sum_products(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Sum x_ti conj(y_tj) over t."""
    return multiply(x.T, y.conj())


def sum_pairwise(
    samples: NDArray[Any], there: NDArray[np.bool_], demean: bool, ddof: int
) -> NDArray[Any]:
    """Covariance of each pair of channels over the samples where both are there.

    Means are those over the same samples. NaN where there are too few. The matrix need not be
    positive semidefinite.
    """
    valid = there.astype(np.float64)
    counts = sum_products(valid, valid)
    count = np.maximum(there.sum(axis=0), 1)
    x = np.where(there, samples, 0)
    if demean:  # first the mean of each channel, so that little cancels below
        x = np.where(there, x - x.sum(axis=0) / count, 0)
    total = sum_products(x, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        if demean:
            rest = sum_products(x, valid)
            total = total - rest * rest.T.conj() / counts
        return np.where(counts > ddof, total / (counts - ddof), np.nan)
