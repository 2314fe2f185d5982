"""Checks of config values: each raises one message with the key, got, expected, and a remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pipeline.errors import Misuse

if TYPE_CHECKING:
    from pipeline.config import Config

MISSING = "???"
"""How OmegaConf marks a value that must be given; written here to keep Hydra out of the schema."""
DTYPES = ("float32", "float64", "complex64", "complex128")
VARIABLES = ("eigenvalues", "eigenvectors", "residual", "status")
ROUNDED = ("eigenvalues", "eigenvectors")
UNITS = {"": 1, "b": 1}
UNITS |= {f"{p}{b}": 1000 ** (i + 1) for i, p in enumerate("kmgt") for b in ("", "b")}
UNITS |= {f"{p}i{b}": 1024 ** (i + 1) for i, p in enumerate("kmgt") for b in ("", "b")}


def refuse(where: str, got: str, expected: str, remedy: str) -> Misuse:
    """Compose the exception for one bad value."""
    return Misuse(f"{where}: got {got}\n  expected: {expected}\n  remedy:   {remedy}")


def find_nearest(word: str, options: Iterable[str]) -> str | None:
    """Find the option that a mistyped word most likely means, or None."""
    by_lower = {option.lower(): option for option in options}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def check_text(key: str, value: str | None) -> None:
    """Refuse empty text."""
    if value is not None and not value.strip():
        raise refuse(key, repr(value), "some text", "give a value, or leave the key out")


def check_one_of(key: str, value: str | None, options: Sequence[str]) -> None:
    """Refuse what is not among the options."""
    if value is not None and value not in options:
        near = find_nearest(value, options)
        remedy = f"did you mean {key}={near}?" if near else "choose one"
        raise refuse(key, repr(value), " | ".join(options), remedy)


def check_least(key: str, value: float | None, least: float) -> None:
    """Refuse a number below `least`, or not finite."""
    if value is not None and not (least <= value < math.inf):
        raise refuse(key, repr(value), f"a finite number, {least} or more", "change it")


def check_most(key: str, value: float | None, most: float) -> None:
    """Refuse a number above `most`."""
    if value is not None and value > most:
        raise refuse(key, repr(value), f"at most {most}", "change it")


def check_above(key: str, value: float | None, bound: float) -> None:
    """Refuse a number not above `bound`, or not finite."""
    if value is not None and not (bound < value < math.inf):
        raise refuse(key, repr(value), f"a finite number above {bound}", "change it")


def check_matrix_dims(dims: Sequence[Any] | None) -> None:
    """Refuse anything but two names or two different positions."""
    if dims is None:
        return
    names = all(isinstance(d, str) and d for d in dims)
    places = all(type(d) is int for d in dims) and len(set(dims)) == 2
    if len(dims) != 2 or not (names or places):
        raise refuse(
            "source.matrix_dims",
            repr(list(dims)),
            "two names of dimensions (the same one twice if it is repeated), or two positions",
            "for example 'source.matrix_dims=[row,column]' or 'source.matrix_dims=[0,1]'",
        )


def check_subset(subset: Sequence[int] | None, largest: int | None) -> None:
    """Refuse an index range that is none, and two choices of pairs at once."""
    if subset is None:
        return
    example = "for example 'solve.subset=[0,4]' for the lowest four"
    if len(subset) != 2 or ((subset[0] < 0) == (subset[1] < 0) and subset[0] >= subset[1]):
        expected = "[lo, hi), two indices with lo before hi"
        raise refuse("solve.subset", repr(list(subset)), expected, example)
    if largest is not None:
        got = f"{list(subset)!r}, and solve.largest={largest}"
        raise refuse("solve.subset", got, "one choice of pairs", "leave one of the two out")


def check_range(bounds: Sequence[float] | None) -> None:
    """Refuse an energy range that is not two ascending finite numbers."""
    if bounds is None:
        return
    if len(bounds) != 2 or not all(map(math.isfinite, bounds)) or bounds[0] >= bounds[1]:
        raise refuse(
            "spectrum.range",
            repr(list(bounds)),
            "[first, last], two finite numbers in ascending order",
            "for example 'spectrum.range=[-10,15]'",
        )


def check_rename(rename: Mapping[str, str]) -> None:
    """Refuse empty names, and two names that become one."""
    names = list(rename.values())
    if not all(names) or len(set(names)) < len(names):
        raise refuse(
            "sink.rename", repr(dict(rename)), "a new name of its own for each", "change one"
        )


def read_variables(names: Sequence[str] | None) -> list[str] | None:
    """Read the results to store; `values` and `vectors` are short for the full names."""
    if names is None:
        return None
    short = {"values": "eigenvalues", "vectors": "eigenvectors"}
    full = [short.get(name, name) for name in names]
    for name in full:
        check_one_of("sink.variables", name, VARIABLES)
    if not full:
        raise refuse("sink.variables", "[]", "at least one result", f"of {', '.join(VARIABLES)}")
    return [name for name in VARIABLES if name in full]


def read_dtypes(value: Any) -> dict[str, str] | None:
    """Read the precisions to store in: one for eigenvalues and eigenvectors, or one for each."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        value = dict.fromkeys(ROUNDED, value)
    short = {"values": "eigenvalues", "vectors": "eigenvectors"}
    full = {short.get(str(name), str(name)): str(dtype) for name, dtype in value.items()}
    for name, dtype in full.items():
        check_one_of("sink.dtype", name, ROUNDED)
        check_one_of("sink.dtype", dtype, DTYPES)
    return full or None


def read_bytes(key: str, value: Any) -> int | None:
    """Read a size in bytes: a whole number, or text such as "64 MiB" or "2e9"."""
    if value is None:
        return None
    text = "" if isinstance(value, bool) else str(value).strip()
    match = re.fullmatch(r"(\d+(?:\.\d*)?(?:[eE]\+?\d+)?)\s*([a-zA-Z]*)", text)
    if match and match[2].lower() in UNITS:
        size = float(match[1]) * UNITS[match[2].lower()]
        if 1 <= size < 2**63:
            return int(match[1]) * UNITS[match[2].lower()] if match[1].isdigit() else int(size)
    raise refuse(
        key,
        repr(value),
        "a size in bytes: a number, alone or with kB, MB, GB, TB, KiB, MiB, GiB or TiB",
        f"for example '{key}=64 MiB'",
    )


def check_stored(config: Config) -> None:
    """Refuse results that are not computed, or that a later stage would miss."""
    names = config.sink.variables
    if names and "eigenvectors" in names and not config.solve.vectors:
        raise refuse(
            "sink.variables",
            "eigenvectors, with solve.vectors=false",
            "results that are computed",
            "set solve.vectors=true, or leave eigenvectors out",
        )
    if names and "eigenvalues" not in names and config.spectrum.method is not None:
        raise refuse(
            "sink.variables",
            f"{names!r}, with a spectrum",
            "eigenvalues among them: the spectrum is made from the stored ones",
            "add eigenvalues, or set spectrum=none",
        )


def check_size(config: Config) -> None:
    """Refuse two sizes of a block at once."""
    if config.sink.shard_bytes and config.plan.block_bytes:
        raise refuse(
            "sink.shard_bytes",
            f"{config.sink.shard_bytes}, and plan.block_bytes={config.plan.block_bytes}",
            "one size of a block: each is one file of a result",
            "leave one of the two out",
        )


def check_filling(config: Config) -> None:
    """Refuse to fill states with electrons where the lowest ones are left out."""
    solve, spectrum = config.solve, config.spectrum
    if spectrum.method is None or spectrum.electrons is None:
        return
    if solve.largest is not None or (solve.subset and solve.subset[0] != 0):
        chosen = f"largest={solve.largest}" if solve.largest else f"subset={solve.subset}"
        raise refuse(
            "spectrum.electrons",
            f"{spectrum.electrons!r} with solve.{chosen}",
            "all the lowest pairs, because electrons fill the states from below",
            "leave out spectrum.electrons, or keep the pairs from index 0 on",
        )
