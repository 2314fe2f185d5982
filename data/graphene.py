"""Haldane's model of graphene, as a function that `source.function` can name.

F. D. M. Haldane, Phys. Rev. Lett. 61, 2015 (1988); k is in units of the reciprocal lattice of
a1 = (1, 0) a and a2 = (1/2, sqrt(3)/2) a, and no lattice vector lies between the two atoms of the
home cell.
"""

import numpy as np
from numpy.typing import NDArray


def hamiltonian(
    k: NDArray[np.float64],
    t: float = 2.7,
    t2: float = 0.1,
    phase: float = 0.25,
    mass: float = 0.0,
) -> NDArray[np.complex128]:
    """Haldane's model of graphene.

    `k` is (points, 2); `t` and `t2` are the hoppings to first and second neighbours, `mass` is
    the difference of the sites, all in eV; `phase` is in turns.
    """
    one, two = 2 * np.pi * k[:, 0], 2 * np.pi * k[:, 1]
    h = np.empty((len(k), 2, 2), complex)
    for site, sign in ((0, 1), (1, -1)):
        turn = sign * 2 * np.pi * phase
        loops = np.cos(one + turn) + np.cos(two - one + turn) + np.cos(-two + turn)
        h[:, site, site] = sign * mass + 2 * t2 * loops
    h[:, 0, 1] = -t * (1 + np.exp(-1j * one) + np.exp(-1j * two))
    h[:, 1, 0] = h[:, 0, 1].conj()
    return h
