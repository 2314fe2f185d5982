"""What an output holds: its arrays, their dimensions, and names that do not collide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pipeline.choices import Compressor
from pipeline.columns import COLUMNS, NOT_RUN, OUTCOMES
from pipeline.errors import Misuse

GROUPS = ("run", "derived", "spectrum", "fit")
"""Groups of an output: nothing else at its root can have these names."""
INHERITED = (
    *("block", "axis", "outcome", "phase", "energy", "edge"),
    *("start", "stop", *COLUMNS),
    *("dos", "idos", "broadening", "band_min", "band_max", "fermi_level"),
    *("gap", "direct_gap", "valence_max", "conduction_min"),
)
"""Names in `run/` and `spectrum/`. A group inherits its parent's indexed coordinates: one of the
same name would hide ours, or clash in size."""


@dataclass(frozen=True)
class Variable:
    """One result array: its name, element type, and its dimensions after the batch ones.

    `compressor` is never `auto`.
    """

    name: str
    dtype: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    fill: Any
    compressor: Compressor
    attrs: Mapping[str, Any]

    @property
    def bytes_each(self) -> int:
        """Bytes for one matrix."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.sizes, dtype=int))


@dataclass(frozen=True)
class Layout:
    """What an output holds: batch dimensions, coordinates, and result arrays.

    Attributes
    ----------
    dims, shape : tuple
        Names and extents of the batch dimensions.
    coords : xarray.Dataset
        Coordinates of the batch, row and pair dimensions, and the root's attributes.
    variables : tuple of Variable
        Result arrays.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: xr.Dataset
    variables: tuple[Variable, ...]

    @property
    def bytes_each(self) -> int:
        """Bytes stored for one matrix."""
        return sum(v.bytes_each for v in self.variables)


def list_variables(
    *,
    n: int,
    pairs: int,
    real: np.dtype[Any],
    dtype: np.dtype[Any],
    row_dim: str,
    pair_dim: str,
    attrs: Mapping[str, Any],
    stored: Mapping[str, np.dtype[Any]],
    compressor: Compressor,
) -> dict[str, Variable]:
    """Describe every array that a run can store, by its name in the contract.

    `real` and `dtype` are those of solving, `stored` those of the arrays that are rounded.
    """
    label = str(attrs.get("long_name") or attrs.get("title") or "the matrix")
    kept = {k: v for k, v in attrs.items() if k not in ("long_name", "standard_name")}
    status = {
        "long_name": "what became of each matrix",
        "flag_values": list(range(len(OUTCOMES))),
        "flag_meanings": " ".join(OUTCOMES),
    }
    residual = {"long_name": "residual in units of n eps; 50 is the threshold", "units": "1"}
    values = {**kept, "long_name": f"eigenvalues of {label}"}
    vectors = {"long_name": f"eigenvectors of {label}", "units": "1"}
    for name, given, attributes in (
        ("eigenvalues", real, values),
        ("eigenvectors", dtype, vectors),
    ):
        if name in stored:
            attributes["comment"] = f"rounded to {stored[name].name} from {given.name}"
    nan = float("nan")
    nans = complex(nan, nan) if dtype.kind == "c" else nan  # as kernels.eigh fills failed vectors
    real, dtype = stored.get("eigenvalues", real), stored.get("eigenvectors", dtype)

    def make(
        name: str,
        dtype: np.dtype[Any],
        dims: dict[str, int],
        fill: Any,
        attributes: Mapping[str, Any],
    ) -> Variable:
        how = choose_compressor(name, compressor)
        return Variable(name, dtype.name, tuple(dims), tuple(dims.values()), fill, how, attributes)

    every = (
        make("eigenvalues", real, {pair_dim: pairs}, nan, values),
        make("residual", np.dtype(np.float32), {}, nan, residual),
        make("status", np.dtype(np.uint8), {}, NOT_RUN, status),
        make("eigenvectors", dtype, {row_dim: n, pair_dim: pairs}, nans, vectors),
    )
    return {variable.name: variable for variable in every}


def choose_compressor(name: str, wanted: Compressor) -> Compressor:
    """Choose how an array is compressed.

    The rule of `auto`: statuses by zstd, which leaves next to nothing of them; numbers not at all,
    because the low bits of eigenvalues and eigenvectors are noise, on which a compressor takes its
    time for next to nothing.
    """
    if wanted is not Compressor.auto:
        return wanted
    return Compressor.zstd if name == "status" else Compressor.none


def check_names(layout: Layout, *, row_dim: str, pair_dim: str) -> None:
    """Refuse names that collide with ours or with each other, or that no array can have."""
    results = [v.name for v in layout.variables]
    dims = [*layout.dims, row_dim, pair_dim]
    others = [str(c) for c in layout.coords.coords if c not in dims]
    taken = {*GROUPS, *results}
    clash = [name for name in (*dims, *others) if name in taken]
    clash += [name for name in results if name in GROUPS]
    clash += [name for name in dims if name in INHERITED]
    clash += [name for name in (*dims, *others, *results) if dims.count(name) > 1]
    clash += [name for name in results if results.count(name) > 1]
    clash += [name for name in (*dims, *others, *results) if "/" in name or name in ("", ".", "..")]
    if clash:
        name = clash[0]
        remedy = f"'sink.rename={{{name}: {name.replace('/', '_').strip('.')}_in}}'"
        raise Misuse(
            f"the output cannot hold the name {name!r}: it is one of ours, stands for two things, "
            f"or cannot be the name of an array. Batch dimensions: {', '.join(layout.dims)}; rows: "
            f"{row_dim}; pairs: {pair_dim}; ours: {', '.join(results)} and "
            f"{', '.join((*GROUPS, *INHERITED))}. Give another name: {remedy} for the input's, "
            f"sink.pair_dim=mode for the pairs'"
        )


def read_units(attrs: Mapping[str, Any]) -> str | None:
    """Return the units that attributes state, as text: some writers put a number there."""
    units = attrs.get("units")
    return None if units is None else str(units)
