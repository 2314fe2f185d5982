"""Packed symmetric matrices: in which order programs write the elements of a triangle.

Orders differ between programs and files do not say which is theirs; a wrong one gives wrong
eigenvectors that look right. So there is no default.
"""

from __future__ import annotations

from math import isqrt, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse

ORDERS = {
    # dipy.reconst.dti.lower_triangular; AFNI's 3dDWItoDT; NIfTI's intent SYMMATRIX
    "dipy": ("xx xy yy xz yz zz", 1.0),
    # dtifit --save_tensor
    "fsl": ("xx xy xz yy yz zz", 1.0),
    # dwi2tensor: D11 D22 D33 D12 D13 D23; also TORTOISE
    "mrtrix": ("xx yy zz xy xz yz", 1.0),
    # W. Voigt, Lehrbuch der Kristallphysik (1910): 4 is yz, 5 is xz, 6 is xy
    "voigt-stress": ("xx yy zz yz xz xy", 1.0),
    # the same of a strain: its shear components are 2 e_yz, 2 e_xz, 2 e_xy
    "voigt-strain": ("xx yy zz yz xz xy", 0.5),
    # J. Mandel, Int. J. Solids Struct. 1, 273 (1965): sqrt(2) t_yz, so that norms are kept
    "mandel": ("xx yy zz yz xz xy", 1 / sqrt(2)),
}
FRAMES = {
    "fsl": "voxel axes, with x turned round where the affine's determinant is positive (bvecs)",
    "mrtrix": "scanner axes (real space)",
}
"""Axes to which components refer, where the program that the order belongs to fixes them."""


class Triangle(NamedTuple):
    """Where the elements of a packed matrix lie.

    Attributes
    ----------
    n : int
        Size of a matrix.
    places : array of int, (n, n)
        For each element its position among the packed ones.
    factor : float
        What off-diagonal ones are multiplied by.
    """

    n: int
    places: NDArray[np.int64]
    factor: float

    @property
    def scale(self) -> NDArray[np.float64]:
        """Factor of each element."""
        return np.where(np.eye(self.n, dtype=bool), 1.0, self.factor)


def find_triangle(packing: str, count: int, what: str) -> Triangle:
    """Find where elements lie, for matrices of `count` packed elements.

    Parameters
    ----------
    packing : str
        A name of `ORDERS` for 3 x 3, or `upper` or `lower`: a triangle of any size, row by row.
    count : int
    what : str
        The array, for the message.

    Raises
    ------
    Misuse
        When as many elements make no such matrix.
    """
    n = (isqrt(8 * count + 1) - 1) // 2
    if n < 2 or n * (n + 1) // 2 != count or (packing in ORDERS and n != 3):
        expected = "6" if packing in ORDERS else "n (n + 1) / 2, that is 3, 6, 10, …"
        raise Misuse(
            f"{what} has {count} elements along its last dimension; source.packing={packing} "
            f"takes {expected}. If the elements lie along another dimension, move it to the end"
        )
    pairs: list[tuple[int, ...]]
    if packing in ORDERS:
        text, factor = ORDERS[packing]
        pairs = [tuple("xyz".index(c) for c in word) for word in text.split()]
    else:
        rows: Any = np.triu_indices(n) if packing == "upper" else np.tril_indices(n)
        pairs, factor = list(zip(*(r.tolist() for r in rows), strict=True)), 1.0
    places = np.zeros((n, n), np.int64)
    for position, (i, j) in enumerate(pairs):
        places[i, j] = places[j, i] = position
    return Triangle(n, places, factor)
