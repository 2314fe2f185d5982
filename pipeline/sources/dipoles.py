"""What dipoles add to a dynamical matrix: the non-analytic term, as a sum in reciprocal space.

X. Gonze, C. Lee, Phys. Rev. B 55, 10355 (1997), eqs. 71 to 73, without the sum in real space,
which the short-range force constants take up: phonopy takes the same sum out of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pipeline.sources.crystal import Crystal
from pipeline.sources.lattice_sum import turn_phases
from pipeline.sources.panels import multiply
from pipeline.sources.points import to_cartesian

Floats = NDArray[np.float64]
AT_GAMMA = 1e-5
"""1/angstrom, without 2 pi: q + G below it counts as 0 (as in phonopy)."""


@dataclass(frozen=True, eq=False)
class Dipoles:
    """Sums the dipoles' part of dynamical matrices; picklable.

    Attributes
    ----------
    reciprocal : array (3, 3)
        Reciprocal vectors in 1/angstrom, one a row, without 2 pi.
    g : array (count, 3)
        Vectors of the sum, in units of the reciprocal lattice.
    charges : array (n, 3)
        Born charges of each row over the square root of the mass: row 3 a + i holds Z_a[:, i].
    positions : array (n, 3)
        Of each row's atom, in units of the lattice.
    dielectric : array (3, 3)
    factor : float
        4 pi over the volume, in units of the force constants.
    width : float
        Of the Gaussian exp(-K eps K / 4 width^2).
    drift : array (n, n)
        Blocks on the diagonal that make the sum vanish at Gamma.
    direction : array (3,) or None
        Along which Gamma is reached, in units of the reciprocal lattice; None: not at all.
    """

    reciprocal: Floats
    g: Floats
    charges: Floats
    positions: Floats
    dielectric: Floats
    factor: float
    width: float
    drift: Floats
    direction: Floats | None

    def __call__(self, q: Floats) -> NDArray[np.complex128]:
        """Sum at the points of a tile, in units of the reciprocal lattice."""
        home = self._find_home(q)
        g = self.g - home[:, None, :]
        k = to_cartesian(q[:, None, :] + g, self.reciprocal)
        k, weights = self._weigh(k)
        phases = turn_phases(g.reshape(-1, 3), self.positions).reshape(*g.shape[:2], -1)
        waves = to_cartesian(k, self.charges.T) * np.sqrt(weights)[..., None] * phases
        pairs = multiply(waves.swapaxes(1, 2), waves.conj())
        return np.asarray(self.factor * (pairs - self.drift))

    def _find_home(self, q: Floats) -> Floats:
        """The reciprocal lattice vectors nearest to points, around which the sum is taken.

        It is cut off, so that it would not be periodic otherwise.
        """
        near = np.rint(q)
        steps = np.array(list(product((-1, 0, 1), repeat=3)), np.float64)
        rest = (q - near)[:, None, :] - steps
        nearest = (
            np.linalg.norm(to_cartesian(rest, self.reciprocal), axis=-1).round(9).argmin(axis=1)
        )
        return np.asarray(near + steps[nearest])

    def _weigh(self, k: Floats) -> tuple[Floats, Floats]:
        """The vectors K and exp(-K eps K / 4 width^2) / K eps K; at Gamma only the direction's."""
        gamma = np.linalg.norm(k, axis=-1) < AT_GAMMA
        stretched = (to_cartesian(k, self.dielectric) * k).sum(axis=-1)
        safe = np.where(gamma, 1.0, stretched)
        weights = np.where(gamma, 0.0, np.exp(-safe / (4 * self.width**2)) / safe)
        if self.direction is None or not gamma.any():
            return k, weights
        along = self.direction @ self.reciprocal
        weights = np.where(gamma, 1 / (along @ self.dielectric @ along), weights)
        return np.where(gamma[..., None], along, k), weights


def make_dipoles(crystal: Crystal, direction: Floats | None) -> Dipoles | None:
    """Prepare the sum, if the crystal has dipoles."""
    if crystal.dipoles is None:
        return None
    given, atoms = crystal.dipoles, len(crystal.masses)
    reciprocal = np.asarray(np.linalg.inv(crystal.lattice).T, np.float64)
    volume = abs(np.linalg.det(crystal.lattice))
    bare = np.concatenate([z.T for z in given["born"]])
    roots = np.sqrt(np.repeat(crystal.masses, 3))
    plain = Dipoles(
        reciprocal=reciprocal,
        g=np.rint(given["g"] @ crystal.lattice.T),
        charges=bare,
        positions=np.repeat(crystal.positions, 3, axis=0),
        dielectric=given["dielectric"],
        factor=1.0,
        width=given["width"],
        drift=np.zeros((3 * atoms, 3 * atoms)),
        direction=None,
    )
    at_gamma = plain(np.zeros((1, 3)))[0].reshape(atoms, 3, atoms, 3).sum(axis=2)
    drift = np.zeros((atoms, 3, atoms, 3))
    for a in range(atoms):
        drift[a, :, a] = (at_gamma[a] + at_gamma[a].conj().T).real / 2 / crystal.masses[a]
    return Dipoles(
        **{
            **{name: getattr(plain, name) for name in plain.__dataclass_fields__},
            "charges": bare / roots[:, None],
            "factor": given["factor"] * 4 * np.pi / volume,
            "drift": drift.reshape(3 * atoms, 3 * atoms),
            "direction": direction,
        }
    )
