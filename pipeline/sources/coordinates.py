"""The labels of a stack: coordinates that lie beside the matrix variable in its group."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pipeline.places import list_folders
from pipeline.sources.listing import Entry, list_arrays, read_group_attrs
from pipeline.sources.packing import decode_fill
from pipeline.sources.zarr import ZarrArray

log = logging.getLogger("eigenstream")


def read_coords(entry: Entry, sizes: Mapping[str, int]) -> xr.Dataset:
    """Load the coordinates of the array `entry`.

    By xarray's rules: the arrays of its group named like their one dimension, and those that a
    variable's or the group's `coordinates` attribute names, when their dimensions are among
    `sizes`. One that cannot be read is left out with a warning in the log.

    Parameters
    ----------
    entry : Entry
        The matrix variable.
    sizes : mapping of str to int
        Length of the batch dimensions, and of the row dimension when it has a name.

    Returns
    -------
    xarray.Dataset
        The decoded coordinates, in memory; its attributes are the group's.
    """
    if not entry.grouped:
        return xr.Dataset()
    group = entry.folder.parent
    siblings = {
        child.name: found
        for child in list_folders(group)
        if child != entry.folder
        for found in list_arrays(child, child.name)
        if found.folder == child
    }
    attrs = read_group_attrs(group)
    named = _split(attrs.pop("coordinates", None)) | _split(entry.attrs.get("coordinates"))
    for sibling in siblings.values():
        named |= _split(sibling.attrs.get("coordinates"))
    found = {}
    for name, sibling in siblings.items():
        index = sibling.dims == (name,)
        if (index or name in named) and set(sibling.dims) <= set(sizes):
            variable = _read_one(name, sibling, sizes)
            if variable is not None:
                found[name] = variable
    return xr.Dataset(coords=found, attrs=attrs)


def _split(text: Any) -> set[str]:
    return set(text.split()) if isinstance(text, str) else set()


def _read_one(name: str, entry: Entry, sizes: Mapping[str, int]) -> xr.Variable | None:
    expected = tuple(sizes[str(d)] for d in entry.dims)
    try:
        if len(set(entry.dims)) < len(entry.dims):
            raise ValueError(f"its dimensions {entry.dims} repeat a name")
        if entry.shape != expected:
            raise ValueError(f"its shape is {entry.shape}, the stack has {expected} there")
        if any(f.get("id") == "pickle" for f in entry.metadata.get("filters") or []):
            raise ValueError("it is stored as Python pickles, which could run foreign code")
        return _decode(name, entry)
    except Exception as error:
        log.warning("coordinate %r is left out: it cannot be read: %s", name, error)
        return None


def _decode(name: str, entry: Entry) -> xr.Variable:
    array = ZarrArray(entry)
    array.take_inventory()
    raw = array.read([range(n) for n in array.shape])
    if raw.dtype.kind == "T":
        raw = raw.astype(object)
    elif raw.dtype.kind == "S":
        raw = np.char.decode(raw, "utf-8").astype(object)
    attrs = {k: v for k, v in entry.attrs.items() if k not in _STORAGE}
    attrs |= _decode_fills(array, entry)
    timed = str(attrs.get("dtype", "")).startswith("timedelta64")
    with warnings.catch_warnings():
        # xarray warns when two declared fill values differ, or a date needs a finer unit;
        # both are decoded as CF says.
        warnings.simplefilter("ignore")
        decoded = xr.conventions.decode_cf_variable(
            name, xr.Variable(entry.dims, raw, attrs), decode_timedelta=timed
        ).load()
    keep = ("units", "calendar", "dtype") if decoded.dtype.kind in "mM" else ()
    decoded.encoding = {k: v for k, v in decoded.encoding.items() if k in keep}
    return decoded


_STORAGE = ("_ARRAY_DIMENSIONS", "_NCZARR_ARRAY", "_nczarr_array", "_nczarr_attrs", "coordinates")


def _decode_fills(array: ZarrArray, entry: Entry) -> dict[str, Any]:
    """The fill-value attributes as numbers of the array's type, for xarray's decoder."""
    found: dict[str, Any] = {}
    if array.dtype.kind not in "biufc":
        return {}
    for key in ("_FillValue", "missing_value"):
        if key in entry.attrs:
            values = decode_fill(entry.attrs[key], array.dtype)
            if values:
                found[key] = array.dtype.type(values[0])
    declared = array.missing_value
    if declared and "_FillValue" not in found:
        found["_FillValue"] = array.dtype.type(declared[-1])
    return found
