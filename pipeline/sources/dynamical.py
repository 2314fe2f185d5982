"""Dynamical matrices from force constants: D(q) as a sum over lattice vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.sources.crystal import Crystal
from pipeline.sources.dipoles import Dipoles, make_dipoles
from pipeline.sources.lattice_sum import LatticeSum, turn_phases
from pipeline.sources.tiles import choose_tile

Floats = NDArray[np.float64]
TIE = 1e-5
"""Angstrom: images whose distances differ by less count as equally near (as in phonopy)."""


@dataclass(frozen=True, eq=False)
class Dynamical:
    """Sums dynamical matrices; picklable.

    D_ab(q) = sum_j F_aj / sqrt(m_a m_b) mean exp(2 pi i q.(r_j - r_a)) over the nearest images of
    each atom j, which is of kind b; plus what dipoles add.

    Attributes
    ----------
    lattice_sum : LatticeSum
        Over whole lattice vectors, without the phases of the atoms' positions.
    positions : array (n, 3)
        Of each row's atom, in units of the lattice.
    dipoles : Dipoles or None
    """

    lattice_sum: LatticeSum
    positions: Floats
    dipoles: Dipoles | None

    @property
    def held(self) -> int:
        """Bytes that it holds, and a tile of waves of the dipoles' sum."""
        if self.dipoles is None:
            return self.lattice_sum.held
        n = self.lattice_sum.n
        return self.lattice_sum.held + 96 * choose_tile(n) * len(self.dipoles.g) * n

    def __call__(self, q: Floats) -> NDArray[np.complex128]:
        """Sum at the points of a tile, in units of the reciprocal lattice."""
        d = self.lattice_sum(q)
        phases = turn_phases(q, self.positions)
        d *= phases.conj()[:, :, None]
        d *= phases[:, None, :]
        if self.dipoles is not None:
            d += self.dipoles(q)
        return np.asarray((d + d.conj().swapaxes(1, 2)) / 2)


def make_dynamical(crystal: Crystal, direction: Floats | None) -> Dynamical:
    """Prepare the sums for a crystal; `direction` is that of q at Gamma, for the dipoles."""
    atoms = len(crystal.masses)
    parts: dict[tuple[int, ...], Floats] = {}
    to_lattice = np.linalg.inv(crystal.lattice)
    for a, j in product(range(atoms), range(len(crystal.kinds))):
        b = int(crystal.kinds[j])
        weight = crystal.constants[a, j] / np.sqrt(crystal.masses[a] * crystal.masses[b])
        images = find_images(crystal, int(crystal.rows[a]), j)
        cells = images @ to_lattice - (crystal.positions[b] - crystal.positions[a])
        whole = np.rint(cells)
        if np.abs(cells - whole).max() > 1e-3:
            raise Misuse(
                f"source.path: atom {j + 1} of the supercell lies no lattice vector away from "
                f"atom {b + 1} of the primitive cell; is the primitive matrix right?"
            )
        for cell in whole.astype(int).tolist():
            part = parts.setdefault(tuple(cell), np.zeros((3 * atoms, 3 * atoms)))
            part[3 * a : 3 * a + 3, 3 * b : 3 * b + 3] += weight / len(whole)
    cells_found = sorted(parts)
    terms = np.array([parts[cell] for cell in cells_found], np.complex128)
    return Dynamical(
        LatticeSum(np.array(cells_found, np.float64), terms),
        np.repeat(crystal.positions, 3, axis=0),
        make_dipoles(crystal, direction),
    )


def find_images(crystal: Crystal, start: int, stop: int) -> Floats:
    """Vectors in angstrom from an atom of the supercell to the nearest images of another."""
    lattice = crystal.super_lattice
    step = crystal.super_positions[stop] - crystal.super_positions[start]
    step = step - np.rint(step)
    # no lattice vector that is longer than this along an axis can lead nearer than `step` itself
    reach = np.linalg.norm(step @ lattice) * np.linalg.norm(np.linalg.inv(lattice), axis=0)
    ranges = [np.arange(-n, n + 1) for n in np.ceil(reach + np.abs(step)).astype(int)]
    shifts = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)
    vectors = np.asarray((step + shifts) @ lattice)
    distances = np.linalg.norm(vectors, axis=1)
    return np.asarray(vectors[distances < distances.min() + TIE])
