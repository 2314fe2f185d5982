"""From stored numbers to the numbers that are solved: CF packing, missing values, upcasts."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse

APPLIED = (
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "_Unsigned",
    "_ARRAY_DIMENSIONS",
    "_NCZARR_ARRAY",
    "_nczarr_array",
    "_nczarr_attrs",
    "_NCZARR_ATTR",
    "coordinates",
    "dtype",
)
"""Attributes that describe how the variable is stored; they don't go with the result."""


@dataclass(frozen=True)
class Packing:
    """How to turn stored values into delivered ones.

    Attributes
    ----------
    dtype : numpy.dtype
        As delivered: float32, float64, complex64 or complex128, native byte order.
    signless : bool
        Signed integers that mean unsigned ones (`_Unsigned`, netCDF classic).
    fills : tuple
        Values that mean "no value". NaN is not one of them: it is simply not finite.
    scale, offset : float
        `scale_factor` and `add_offset`, applied in double precision.
    """

    dtype: np.dtype[Any]
    signless: bool
    fills: tuple[Any, ...]
    scale: float
    offset: float

    def unpack(
        self, raw: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Deliver `raw` as `dtype`; the second result marks CF missing values (NaN in the first).

        The second result is None when the variable declares no such value.
        """
        if self.signless:
            raw = raw.astype(raw.dtype.newbyteorder("="), copy=False)
            raw = raw.view(raw.dtype.str.replace("i", "u"))
        values = raw.astype(self.dtype, copy=False)
        missing = None
        if self.fills:
            missing = np.zeros(raw.shape, dtype=bool)
            for fill in self.fills:
                missing |= raw == fill
        if self.scale != 1 or self.offset != 0:
            values = values * self.scale + self.offset
        if missing is not None and missing.any():
            values[missing] = np.nan
        return values, missing


def plan_packing(
    what: str, dtype: np.dtype[Any], attrs: Mapping[str, Any], fills: Sequence[Any]
) -> Packing:
    """Decide how to deliver an array of stored type `dtype` with these attributes.

    float16 becomes float32; integers and booleans become float64 (integers beyond 2^53 are
    rounded); packed values (`scale_factor`, `add_offset`) become double precision.

    Raises
    ------
    Misuse
        For types that cannot be diagonalised: text, objects, records, dates, long double.
    """
    delivered = _deliver(what, dtype)
    scale, offset = (_number(attrs.get(k), d) for k, d in (("scale_factor", 1), ("add_offset", 0)))
    if scale != 1 or offset != 0:
        delivered = np.result_type(delivered, np.float64)
    signless = dtype.kind == "i" and str(attrs.get("_Unsigned", "")).lower() == "true"
    known = tuple(f for f in fills if f == f)
    if signless:
        known = tuple(int(f) % 2 ** (8 * dtype.itemsize) for f in known)
    return Packing(np.dtype(delivered), signless, known, scale, offset)


def _number(value: Any, default: float) -> float:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        return default if value is None else float(value)
    except (TypeError, ValueError):
        raise Misuse(
            f"the attributes scale_factor and add_offset must be numbers, got {value!r}; mend or "
            f"remove them in the store"
        ) from None


def _deliver(what: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return np.dtype(np.float32 if dtype.itemsize == 2 else dtype.newbyteorder("="))
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return dtype.newbyteorder("=")
    if dtype.kind in "fc":
        remedy = "no solver works in long double; store it as float64 or complex128"
    elif dtype.kind == "V":
        remedy = (
            "it is a record; real and imaginary parts belong in one complex number: "
            "store a['r'] + 1j * a['i']"
        )
    else:
        remedy = "it does not hold numbers; choose another array with source.variable=NAME"
    raise Misuse(
        f"{what} has type {dtype}, expected real or complex numbers, integers or booleans: {remedy}"
    )


def decode_fill(value: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Values of a `_FillValue` or `missing_value` attribute, as plain numbers.

    xarray writes floats into v3 attributes as base64 of a little-endian double, complex
    numbers as two of them; others write plain numbers, or texts such as "NaN".
    """
    if dtype.kind == "c" and isinstance(value, list) and len(value) == 2:
        return [complex(*(_decode_one(v) for v in value))]
    values = value if isinstance(value, list) else [value]
    if dtype.kind not in "biufc":
        return values
    return [v for v in map(_decode_one, values) if isinstance(v, int | float)]


def _decode_one(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) == 8:
        return struct.unpack("<d", raw)[0]
    try:
        return float(value)
    except ValueError:
        return value


def plain(value: Any) -> Any:
    """JSON-able copy of metadata in which equal things compare equal (NaN does not)."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value
