"""Fourier sums over lattice vectors: H(k) = sum_R exp(2 pi i k.R) H(R)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.sources.panels import add_product

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
        """Bytes that it holds: the terms, their parts, and a tile of phases."""
        return 2 * int(self.terms.nbytes) + 64 * len(self.cells) * 32

    @cached_property
    def _parts(self) -> tuple[Floats, Floats | None]:
        """Real and imaginary parts, a row for each lattice vector; None where there are none."""
        table = self.terms.reshape(len(self.cells), -1)
        imag = np.ascontiguousarray(table.imag)
        return np.ascontiguousarray(table.real), imag if imag.any() else None

    def __call__(self, k: Floats) -> Complex:
        """Sum at the points of a tile, in units of the reciprocal lattice."""
        cosines, sines = turn(k, self.cells)
        real, imag = self._parts
        whole = np.empty((len(k), self.n**2), np.complex128)
        parts = np.zeros((2, *whole.shape))
        add_product(parts[0], cosines, real)
        add_product(parts[1], sines, real)
        if imag is not None:
            add_product(parts[0], sines, imag, -1)
            add_product(parts[1], cosines, imag)
        whole.real, whole.imag = parts
        return whole.reshape(len(k), self.n, self.n)


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
