"""Frequencies from the eigenvalues of dynamical matrices."""

from __future__ import annotations

import xarray as xr

from pipeline.errors import Misuse

FACTOR = "frequency_factor_THz"


def derive_frequencies(result: xr.Dataset) -> xr.DataArray:
    """Derive frequencies from a result of `source=phonopy`; lazy where the result is.

    Parameters
    ----------
    result : xarray.Dataset
        The root of an output.

    Returns
    -------
    xarray.DataArray
        `frequency` in THz: sign(w) sqrt(|w|) times the factor that the source states; imaginary
        ones are negative.

    Raises
    ------
    Misuse
        When the result is none of phonons.
    """
    if FACTOR not in result.attrs or "eigenvalues" not in result:
        raise Misuse(f"the result has no attribute {FACTOR} or no eigenvalues: is it of phonons?")
    squares = result["eigenvalues"]
    sign = (squares > 0).astype(squares.dtype) - (squares < 0).astype(squares.dtype)
    frequency: xr.DataArray = sign * abs(squares) ** 0.5 * result.attrs[FACTOR]
    about = {"units": "THz", "long_name": "frequency; imaginary ones negative"}
    frequency = frequency.where(squares.notnull())
    return frequency.drop_attrs(deep=False).assign_attrs(about).rename("frequency")
