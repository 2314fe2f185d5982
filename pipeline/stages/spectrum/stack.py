"""The stack of matrices whose eigenvalues make a spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Stack:
    """What the spectrum is taken of.

    Attributes
    ----------
    dims, shape : tuple
        Names and extents of the batch dimensions.
    bands : ndarray of int64, shape (m,)
        Index in the full ascending spectrum of each stored eigenvalue, rising or falling.
    n : int
        Rows of a matrix.
    coords : xarray.Dataset
        Coordinates on the batch dimensions; others are left alone.
    units : str or None
        Units of the eigenvalues.
    pair_dim : str
        Name of the bands' dimension.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    bands: NDArray[np.int64]
    n: int
    coords: xr.Dataset
    units: str | None = None
    pair_dim: str = "band"

    @property
    def descending(self) -> bool:
        """Whether the largest eigenvalue is stored first."""
        return bool(self.bands[0] > self.bands[-1])

    @property
    def rising(self) -> NDArray[np.int64]:
        """The band indices in ascending order."""
        return np.sort(self.bands)
