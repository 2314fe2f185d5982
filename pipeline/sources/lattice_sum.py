"""Fourier sums over lattice vectors: H(k) = sum_R exp(2 pi i k.R) H(R)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PANEL = 64
"""Rows and columns that one matrix product takes. With 64 points these are 2**18 multiplications,
up to which OpenBLAS stays in one thread (interface/gemm.c), so that the number of its threads does
not change the order of the sums."""

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class LatticeSum:
    """Matrices that belong to lattice vectors, to be summed with phases.

    Attributes
    ----------
    cells : array of float64, (count, axes)
        Lattice vectors, in units of the lattice.
    terms : array of complex128, (count, n, n)
        Their matrices.
    """

    cells: NDArray[np.float64]
    terms: Complex

    @property
    def n(self) -> int:
        """Size of a matrix."""
        return int(self.terms.shape[-1])

    def __call__(self, k: NDArray[np.float64]) -> Complex:
        """Sum at the points of a tile, in units of the reciprocal lattice."""
        phases = turn_phases(k, self.cells)
        table = self.terms.reshape(len(self.cells), -1)
        out = np.zeros((len(k), table.shape[1]), np.complex128)
        for column in range(0, table.shape[1], PANEL):
            part = out[:, column : column + PANEL]
            for row in range(0, len(table), PANEL):
                rows = slice(row, row + PANEL)
                part += phases[:, rows] @ table[rows, column : column + PANEL]
        return out.reshape(len(k), self.n, self.n)


def turn_phases(k: NDArray[np.float64], vectors: NDArray[np.float64]) -> Complex:
    """Compute exp(2 pi i k.v) for points (count, axes) and vectors (many, axes).

    Whole turns are taken away before the sine, where they would cost digits.
    """
    turns = k[:, :1] * vectors[:, 0]
    for axis in range(1, k.shape[1]):
        turns += k[:, axis : axis + 1] * vectors[:, axis]
    turns -= np.rint(turns)
    turns *= 2 * np.pi
    phases = np.empty(turns.shape, np.complex128)
    phases.real, phases.imag = np.cos(turns), np.sin(turns)
    return phases
