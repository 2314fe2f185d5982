"""Kinds of input: which keys of the `source` group each of them reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pipeline.checks import check_least, check_one_of, check_text, refuse

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

STORED = ("variable", "isel", "sel", "mask", "missing", "storage_options")
POINTS = ("mesh", "shift", "time_reversal", "kpath", "points")
WAVES = (*POINTS, "lattice")
WINDOWS = (
    *("sample_dim", "channel_dim", "window", "step", "demean", "ddof", "nan"),
    *("correlation", "feature_weights"),
)
KEYS = {
    "zarr": (*STORED, "matrix_dims"),
    "wannier90": WAVES,
    "function": (*WAVES, "function", "parameters"),
    "phonopy": (*POINTS, "dipoles", "direction"),
    "tensors": (*STORED, "packing"),
    "covariance": ("variable", "isel", "sel", "missing", "storage_options", *WINDOWS),
}
"""Keys that each kind reads, beside `kind`, `path` and `units`."""
PACKINGS = ("dipy", "fsl", "mrtrix", "voigt-stress", "voigt-strain", "mandel", "upper", "lower")


def check_kind(config: SourceConfig) -> None:
    """Refuse keys that the kind of source would pass over."""
    kind = config.kind.value
    for f in fields(config):
        default = f.default if f.default_factory is NO_DEFAULT else f.default_factory()
        given = getattr(config, f.name) != default
        if given and f.name not in (*KEYS[kind], "kind", "path", "units"):
            raise refuse(
                f"source.{f.name}",
                f"{getattr(config, f.name)!r} with source.kind={kind}",
                f"keys that this kind reads: {', '.join(('path', 'units', *KEYS[kind]))}",
                f"leave it out, or choose source={' or source='.join(find_kinds(f.name))}",
            )


def find_kinds(key: str) -> list[str]:
    """List the kinds that read a key."""
    return [kind for kind, keys in KEYS.items() if key in keys]


def check_points(config: SourceConfig) -> None:
    """Refuse meshes and paths that are none."""
    check_text("source.kpath", config.kpath)
    check_text("source.function", config.function)
    check_one_of("source.packing", config.packing, PACKINGS)
    check_least("source.window", config.window, 1)
    check_least("source.step", config.step, 1)
    check_least("source.ddof", config.ddof, 0)
    if config.step is not None and config.window is None:
        raise refuse("source.step", "no source.window", "a window with it", "set source.window")
    check_least("source.points", config.points, 1)
    if config.mesh is not None:
        check_mesh(config.mesh, config.shift, config.time_reversal)
    elif config.shift is not None or config.time_reversal:
        key = "shift" if config.shift is not None else "time_reversal"
        raise refuse(f"source.{key}", "no source.mesh", "a mesh with it", "set source.mesh")
    if config.mesh is not None and (config.kpath is not None or config.points is not None):
        key = "kpath" if config.kpath is not None else "points"
        raise refuse(
            f"source.{key}", "source.mesh, too", "a mesh or a path", "leave one of the two out"
        )
    if config.direction is not None and not (len(config.direction) == 3 and any(config.direction)):
        expected = "three numbers that are not all 0, in units of the reciprocal lattice"
        remedy = "for example 'source.direction=[1,0,0]'"
        raise refuse("source.direction", repr(list(config.direction)), expected, remedy)
    if config.lattice is not None:
        check_lattice(config.lattice)


def check_mesh(mesh: Sequence[int], shift: Sequence[float] | None, reversal: bool) -> None:
    """Refuse a mesh without points, and a shift that does not fit it."""
    if not 1 <= len(mesh) <= 3 or any(count < 1 for count in mesh):
        remedy = "for example 'source.mesh=[12,12,12]'"
        raise refuse("source.mesh", repr(list(mesh)), "1 to 3 counts of points", remedy)
    if shift is None:
        return
    if len(shift) != len(mesh) or not all(map(math.isfinite, shift)):
        expected = f"{len(mesh)} parts of a step, one an axis"
        raise refuse("source.shift", repr(list(shift)), expected, "0.5 is half a step")
    if reversal and any(part not in (0, 0.5) for part in shift):
        raise refuse(
            "source.shift",
            f"{list(shift)!r} with source.time_reversal=true",
            "0 or 0.5 along each axis: only these meshes hold -k with every k",
            "change it, or set source.time_reversal=false",
        )


def check_lattice(lattice: Sequence[Sequence[Any]]) -> None:
    """Refuse lattice vectors that do not span their space."""
    size = len(lattice)
    if not 1 <= size <= 3 or any(len(vector) != size for vector in lattice):
        raise refuse(
            "source.lattice",
            repr([list(vector) for vector in lattice]),
            "1 to 3 vectors of as many components, in angstrom",
            "for example 'source.lattice=[[2.46,0],[1.23,2.13]]'",
        )
