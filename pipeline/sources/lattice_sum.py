"""Fourier sums over lattice vectors: H(k) = sum_R exp(2 pi i k.R) H(R)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.sources.panels import add_product
from pipeline.sources.tiles import choose_tile

Floats = NDArray[np.float64]
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

    cells: Floats
    terms: Complex

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "terms": self.terms}

    @property
    def n(self) -> int:
        """Size of a matrix."""
        return int(self.terms.shape[-1])

    @property
    def held(self) -> int:
        """Bytes that it holds: the terms, their halves, and a tile of sines and cosines."""
        return 2 * int(self.terms.nbytes) + choose_tile(self.n) * len(self.cells) * 32

    @cached_property
    def _halves(self) -> tuple[Floats, dict[str, Floats | None]]:
        """One of R and -R, and real and imaginary parts of H(R) + H(-R) and H(R) - H(-R).

        Sine and cosine of both are alike, up to a sign. Parts that are all 0 are None.
        """
        cells = [tuple(cell) for cell in self.cells.tolist()]
        index = {cell: i for i, cell in enumerate(cells)}
        kept = [
            i for i, cell in enumerate(cells) if cell >= mirror(cell) or mirror(cell) not in index
        ]
        even = self.terms[kept].reshape(len(kept), -1)
        odd = even.copy()
        for row, i in enumerate(kept):
            other = index.get(mirror(cells[i]))
            if other is not None and other != i:
                even[row] += self.terms[other].ravel()
                odd[row] -= self.terms[other].ravel()
            elif other == i:
                odd[row] = 0
        parts = {"even": even.real, "i even": even.imag, "odd": odd.real, "i odd": odd.imag}
        found = {k: np.ascontiguousarray(v) if v.any() else None for k, v in parts.items()}
        return self.cells[kept], found

    def __call__(self, k: Floats) -> Complex:
        """Sum at the points of a tile, in units of the reciprocal lattice."""
        cells, parts = self._halves
        cosines, sines = turn(k, cells)
        sums = np.zeros((2, len(k), self.n**2))
        for at, factors, name, sign in (
            (0, cosines, "even", 1),
            (0, sines, "i odd", -1),
            (1, cosines, "i even", 1),
            (1, sines, "odd", 1),
        ):
            table = parts[name]
            if table is not None:
                add_product(sums[at], factors, table, sign)
        whole = np.empty(sums.shape[1:], np.complex128)
        whole.real, whole.imag = sums
        return whole.reshape(len(k), self.n, self.n)


def mirror(cell: tuple[float, ...]) -> tuple[float, ...]:
    """The opposite lattice vector; without -0."""
    return tuple(0.0 - c for c in cell)


def turn(k: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine of 2 pi k.v for points (count, axes) and vectors (many, axes).

    Whole turns are taken away before, where they would cost digits.
    """
    turns = k[:, :1] * vectors[:, 0]
    for axis in range(1, k.shape[1]):
        turns += k[:, axis : axis + 1] * vectors[:, axis]
    turns -= np.rint(turns)
    turns *= 2 * np.pi
    return np.cos(turns), np.sin(turns)


def turn_phases(k: Floats, vectors: Floats) -> Complex:
    """Compute exp(2 pi i k.v), as `turn` does."""
    phases = np.empty((len(k), len(vectors)), np.complex128)
    phases.real, phases.imag = turn(k, vectors)
    return phases
