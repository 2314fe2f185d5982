"""What every matrix weighs: a coordinate of the stack, in whole numbers.

Sums of whole numbers come out the same in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.plan import Block


def find_weights(coords: xr.Dataset, name: str | None, dims: Sequence[str]) -> xr.DataArray | None:
    """Find the coordinate that weighs the matrices.

    Parameters
    ----------
    coords : xarray.Dataset
        The stack's coordinates.
    name : str or None
        The coordinate's name (`spectrum.weights`); None takes the one whose attribute `role` is
        `weight`, if there is one.
    dims : sequence of str
        Batch dimensions.

    Returns
    -------
    xarray.DataArray or None
        The weights, float64, on some or all of the batch dimensions; None: all weigh 1.

    Raises
    ------
    Misuse
        If there is no such coordinate, or more than one is marked, or its values are not finite
        numbers >= 0, some of them > 0.
    """
    marked = [str(n) for n, v in coords.variables.items() if v.attrs.get("role") == "weight"]
    fitting = [str(n) for n, v in coords.variables.items() if is_weight(v, dims)]
    hint = f"coordinates with numbers on the batch dimensions: {', '.join(fitting) or 'none'}"
    if name is None and len(marked) > 1:
        raise Misuse(
            f"spectrum.weights: the coordinates {', '.join(marked)} are all marked role=weight; "
            "name the one to use"
        )
    name = name or (marked[0] if marked else None)
    if name is None:
        return None
    if name not in fitting:
        found = "is no such coordinate" if name in coords.variables else "does not exist"
        raise Misuse(f"spectrum.weights={name} {found}; {hint}")
    weights = coords[name].astype(np.float64)
    check_weights(weights, name)
    return weights


def is_weight(variable: xr.Variable, dims: Sequence[str]) -> bool:
    """Whether a coordinate could weigh matrices: real numbers, on batch dimensions only."""
    return variable.dtype.kind in "fiu" and set(variable.dims) <= set(dims)


def check_weights(weights: xr.DataArray, name: str) -> None:
    """Refuse weights that are negative, not finite, or all zero."""
    values = weights.values
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        at = [int(i) for i in np.argwhere(bad)[0]]
        place = ", ".join(f"{dim}={i}" for dim, i in zip(weights.dims, at, strict=True))
        raise Misuse(
            f"spectrum.weights={name}: {int(bad.sum())} of {values.size} weights are negative or "
            f"not finite, the first {values[tuple(at)]} at {place}; expected finite numbers >= 0"
        )
    if values.size and not values.any():
        raise Misuse(f"spectrum.weights={name}: all weights are 0; expected some > 0")


def slice_weights(weights: xr.DataArray, dims: Sequence[str], block: Block) -> NDArray[np.float64]:
    """Return a block's share of the weights, of shape block.shape."""
    where = dict(zip(dims, block.slices, strict=True))
    part = weights.isel({str(dim): where[str(dim)] for dim in weights.dims})
    absent = [dim for dim in dims if dim not in part.dims]
    full = part.expand_dims(absent).transpose(*dims)
    return np.broadcast_to(np.asarray(full.values, np.float64), block.shape)


def choose_exponent(matrices: int, bands: int, heaviest: float) -> int:
    """Choose the s that makes whole numbers of the weights: rint(weight * 2**s).

    The rule: `matrices` (of the whole stack) times `bands` times the `heaviest` weight must come
    to at most 2**61, so that no sum of int64 overflows, and one weight to at most 2**52, so that
    its float64 is exact. It depends on constants of the run alone, never on blocks.
    """
    _, above = math.frexp(heaviest)  # heaviest <= 2**above
    states = (max(matrices * bands, 1) - 1).bit_length()
    return min(61 - states, 52) - above


def weigh(
    weights: NDArray[np.float64] | None, shape: Sequence[int], exponent: int
) -> NDArray[np.int64]:
    """Turn weights into whole numbers of 2**-exponent; None: all 1."""
    given = np.ones(shape) if weights is None else weights
    return np.asarray(np.rint(np.ldexp(given, exponent)), np.int64)
