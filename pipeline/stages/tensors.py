"""What a field reads off the eigenvalues of 3 x 3 tensors: anisotropy, diffusivities, shapes.

Labelled results in, labelled maps out; lazy where the results are (dask), and NaN where a tensor
was not solved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pipeline.errors import Misuse


def derive_tensors(result: xr.Dataset, *, clip: bool = False) -> xr.Dataset:
    """Derive maps from a result of `source=tensors`.

    Parameters
    ----------
    result : xarray.Dataset
        The root of an output: `eigenvalues` of three pairs, and `eigenvectors` if they were
        stored.
    clip : bool
        Take negative eigenvalues as 0, as dipy and FSL do; `negative` counts them in any case.

    Returns
    -------
    xarray.Dataset
        With l1 >= l2 >= l3, and A = D - md:
        `md` their mean, `ad` = l1, `rd` = (l2 + l3) / 2;
        `fa` = sqrt(3/2 |A|^2 / |D|^2) (P. J. Basser, C. Pierpaoli, J. Magn. Reson. B 111, 209
        (1996)), 0 for a tensor of zeros;
        `mode` = 3 sqrt(6) det(A / |A|), from -1 (a disk) to 1 (a needle) (D. B. Ennis,
        G. Kindlmann, Magn. Reson. Med. 55, 136 (2006));
        `linearity` = (l1 - l2) / l1, `planarity` = (l2 - l3) / l1, `sphericity` = l3 / l1
        (C.-F. Westin et al., Med. Image Anal. 6, 93 (2002));
        `negative`, how many are below 0;
        and from eigenvectors `direction`, that of l1 (its sign means nothing), and `rgb`, its
        absolute components times `fa`.

    Raises
    ------
    Misuse
        When not all three eigenvalues are there.
    """
    values, pair = find_values(result)
    ordered = [values.isel({pair: int(np.flatnonzero(values[pair] == i)[0])}) for i in (2, 1, 0)]
    l1, l2, l3 = (part.drop_vars(pair) for part in ordered)
    below = (l1 < 0).astype("uint8") + (l2 < 0).astype("uint8") + (l3 < 0).astype("uint8")
    if clip:
        l1, l2, l3 = (part.where(~(part < 0), 0.0) for part in (l1, l2, l3))
    maps = describe_shape(l1, l2, l3)
    for name in ("md", "ad", "rd"):
        if "units" in values.attrs:
            maps[name].attrs["units"] = values.attrs["units"]
    maps["negative"] = below.assign_attrs(long_name="eigenvalues below 0", units="1")
    if "eigenvectors" in result:
        maps |= describe_direction(result["eigenvectors"], pair, maps["fa"])
    return xr.Dataset(maps)


def find_values(result: xr.Dataset) -> tuple[xr.DataArray, str]:
    """Find the eigenvalues, and the name of their dimension of pairs."""
    if "eigenvalues" not in result:
        raise Misuse(f"no eigenvalues in the result; there: {', '.join(map(str, result))}")
    values = result["eigenvalues"]
    pair = str(values.dims[-1])
    if sorted(values[pair].to_numpy().tolist()) != [0, 1, 2]:
        raise Misuse(
            f"the result has pairs {values[pair].to_numpy().tolist()}; expected all three of a "
            f"3 x 3 tensor: run again without solve.subset and solve.largest"
        )
    return values, pair


def describe_shape(l1: xr.DataArray, l2: xr.DataArray, l3: xr.DataArray) -> dict[str, Any]:
    """Means, and what does not depend on the size of the tensor."""
    md = (l1 + l2 + l3) / 3
    a = [part - md for part in (l1, l2, l3)]
    spread = a[0] ** 2 + a[1] ** 2 + a[2] ** 2
    size = l1**2 + l2**2 + l3**2
    ratio = 1.5 * spread / size.where(size != 0)
    fa = (ratio**0.5).where(size != 0, size)  # 0 of a tensor of zeros, else NaN
    first = l1.where(l1 != 0)
    shape = 3 * np.sqrt(6.0) * a[0] * a[1] * a[2] / (spread**1.5).where(spread != 0)
    names = {
        "md": (md, "mean diffusivity: mean eigenvalue"),
        "ad": (l1, "axial diffusivity: largest eigenvalue"),
        "rd": ((l2 + l3) / 2, "radial diffusivity: mean of the two smaller eigenvalues"),
        "fa": (fa, "fractional anisotropy"),
        "mode": (shape, "mode: -1 disk, 1 needle"),
        "linearity": ((l1 - l2) / first, "(l1 - l2) / l1"),
        "planarity": ((l2 - l3) / first, "(l2 - l3) / l1"),
        "sphericity": (l3 / first, "l3 / l1"),
    }
    return {
        name: part.drop_attrs().assign_attrs(
            long_name=about, **({} if name in ("md", "ad", "rd") else {"units": "1"})
        )
        for name, (part, about) in names.items()
    }


def describe_direction(vectors: xr.DataArray, pair: str, fa: xr.DataArray) -> dict[str, Any]:
    """The direction of the largest eigenvalue, and its colour: x red, y green, z blue."""
    at = int(np.flatnonzero(vectors[pair] == 2)[0])
    first = vectors.isel({pair: at}).drop_vars(pair).drop_attrs()
    colour = (abs(first) * fa.clip(0, 1)).transpose(*first.dims)
    return {
        "direction": first.assign_attrs(long_name="principal direction", units="1"),
        "rgb": colour.assign_attrs(long_name="principal direction times fa", units="1"),
    }
