"""Reads the text files of Wannier90 and sums H(k) from them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Model:
    """A tight-binding model: `hoppings[i]` in eV belongs to the lattice vector `cells[i]`."""

    cells: NDArray[np.int64]
    hoppings: Complex

    def sum_hamiltonian(self, k: NDArray[np.float64]) -> Complex:
        """Sum H(k), shape (nk, n, n), at wave vectors in units of the reciprocal lattice."""
        phases = np.exp(2j * np.pi * (k @ self.cells.T))
        return np.einsum("kr,rmn->kmn", phases, self.hoppings)


def open_text(path: Path) -> list[str]:
    """Lines of a text file, packed or not."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode().splitlines()
    return path.read_text().splitlines()


def read_head(lines: list[str]) -> tuple[int, NDArray[np.int64], list[str]]:
    """Split num_wann, nrpts and the degeneracies, 15 a line, from the lines behind them."""
    n, count = int(lines[0]), int(lines[1])
    rows = -(-count // 15)
    degeneracy = np.array(" ".join(lines[2 : 2 + rows]).split(), dtype=np.int64)
    assert degeneracy.shape == (count,)
    return n, degeneracy, lines[2 + rows :]


def read_hr(path: Path) -> Model:
    """Read `SEED_hr.dat`: six decimals; the degeneracies are divided out."""
    n, degeneracy, lines = read_head(open_text(path)[1:])
    table = np.array([line.split() for line in lines if line.strip()], dtype=np.float64)
    table = table.reshape(len(degeneracy), n, n, 7)  # the row m runs fastest
    hoppings = (table[..., 5] + 1j * table[..., 6]).swapaxes(1, 2)
    return Model(table[:, 0, 0, :3].astype(np.int64), hoppings / degeneracy[:, None, None])


def read_tb(path: Path) -> Model:
    """Read the Hamiltonian of `SEED_tb.dat`: eight digits."""
    n, degeneracy, lines = read_head(open_text(path)[4:])
    cells = np.empty((len(degeneracy), 3), np.int64)
    hoppings = np.empty((len(degeneracy), n, n), np.complex128)
    for i in range(len(degeneracy)):
        part = lines[i * (n * n + 2) :][: n * n + 2]  # a blank line, the cell, n^2 elements
        cells[i] = part[1].split()
        table = np.array([line.split() for line in part[2:]], dtype=np.float64)
        hoppings[i] = (table[:, 2] + 1j * table[:, 3]).reshape(n, n).T
    return Model(cells, hoppings / degeneracy[:, None, None])


def spread_images(model: Model, path: Path) -> Model:
    """Spread each element evenly over the minimal-distance images that `SEED_wsvec.dat` lists."""
    index = {tuple(cell): i for i, cell in enumerate(model.cells.tolist())}
    parts: dict[tuple[int, ...], Complex] = {}
    lines = iter(open_text(path)[1:])
    for line in lines:
        *cell, m, n = map(int, line.split())
        count = int(next(lines))
        element = model.hoppings[index[tuple(cell)], m - 1, n - 1] / count
        for _ in range(count):
            shift = map(int, next(lines).split())
            image = tuple(a + b for a, b in zip(cell, shift, strict=True))
            part = parts.setdefault(image, np.zeros(model.hoppings.shape[1:], np.complex128))
            part[m - 1, n - 1] += element
    return Model(np.array(list(parts)), np.stack(list(parts.values())))
