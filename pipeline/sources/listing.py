"""What lies in a Zarr hierarchy: its arrays, read from their own metadata files.

Consolidated metadata is never consulted: after an append by another program it
can be stale, and the store then opens short (https://github.com/pydata/xarray/issues/5878).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from pipeline.errors import Misuse
from pipeline.places import Place, list_folders

_NUMERIC = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
}
_SHOWN = 40


@dataclass(frozen=True)
class Entry:
    """One array of a store, as its metadata describes it.

    Attributes
    ----------
    name : str
        Path inside the store; the folder's own name when the store is one array.
    folder : Place
        Where its metadata and chunks lie.
    zarr_format : int
        2 or 3.
    metadata, attrs : dict
        As stored.
    grouped : bool
        Whether the array belongs to a group.
    problem : str or None
        Why the metadata cannot be read.
    """

    name: str
    folder: Place
    zarr_format: int
    metadata: dict[str, Any] = field(repr=False)
    attrs: dict[str, Any] = field(repr=False)
    grouped: bool
    problem: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""
        extents = self.metadata.get("shape", ())
        return tuple(n for n in extents if isinstance(n, int))

    @property
    def dtype(self) -> str:
        """The data type as text: a numpy name where there is one."""
        stored = self.metadata.get("data_type" if self.zarr_format == 3 else "dtype")
        if isinstance(stored, dict):
            return str(stored.get("name"))
        if self.zarr_format == 3 or not isinstance(stored, str):
            return str(stored)
        try:
            return np.dtype(stored).name
        except TypeError:
            return stored

    @property
    def dims(self) -> tuple[str | None, ...]:
        """Name of every dimension, None where it has none."""
        names = self.metadata.get("dimension_names") if self.zarr_format == 3 else None
        for found in (names, self.attrs.get("_ARRAY_DIMENSIONS"), _netcdf_dims(self)):
            if isinstance(found, list) and len(found) == len(self.shape):
                return tuple(str(name) if name else None for name in found)
        return (None,) * len(self.shape)

    def looks_like_stack(self, matrix_dims: Sequence[Any] | None = None) -> bool:
        """Whether the two matrix dimensions are there, square, and hold numbers."""
        if self.dtype not in _NUMERIC or len(self.shape) < 2:
            return False
        rows, columns = -2, -1
        if matrix_dims:
            if all(isinstance(d, str) for d in matrix_dims):
                where = [i for i, d in enumerate(self.dims) if d in matrix_dims]
            else:
                where = [d for d in matrix_dims if -len(self.shape) <= d < len(self.shape)]
            if len(where) != 2:
                return False
            rows, columns = where
        return self.shape[rows] == self.shape[columns] > 0


def _netcdf_dims(entry: Entry) -> list[str] | None:
    """Dimension names as netCDF-C writes them into Zarr v2 (NCZarr)."""
    for holder in (entry.metadata, entry.attrs):
        for key in ("_NCZARR_ARRAY", "_nczarr_array"):
            if isinstance(holder.get(key), dict):
                refs = holder[key].get("dimrefs", holder[key].get("dimension_references"))
                return [str(ref).rpartition("/")[2] for ref in refs] if refs else None
    return None


def read_json(path: Place) -> dict[str, Any]:
    """Read one metadata file; an absent one is empty."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return content


def read_group_attrs(folder: Place) -> dict[str, Any]:
    """Attributes of the group at `folder`, of either format."""
    found = read_json(folder / "zarr.json")
    return dict(found.get("attributes") or {}) if found else read_json(folder / ".zattrs")


def is_group(folder: Place) -> bool:
    """Whether `folder` is a Zarr group."""
    try:
        return (folder / ".zgroup").is_file() or (
            read_json(folder / "zarr.json").get("node_type") == "group"
        )
    except (ValueError, OSError):
        return False


def read_entry(folder: Place, name: str) -> Entry | None:
    """Describe the array at `folder`, or give None where there is no array.

    A folder that holds the metadata of both formats is read as v3, as zarr-python does.
    """
    grouped = is_group(folder.parent)
    try:
        found = read_json(folder / "zarr.json")
        if found.get("node_type") == "array":
            attrs = found.pop("attributes", None) or {}
            return Entry(name, folder, 3, found, attrs, grouped)
        if found:
            return None
        if (folder / ".zarray").is_file():
            metadata = read_json(folder / ".zarray")
            return Entry(name, folder, 2, metadata, read_json(folder / ".zattrs"), grouped)
    except (ValueError, OSError) as error:
        return Entry(name, folder, 0, {}, {}, grouped, f"metadata unreadable: {error}")
    return None


def list_arrays(folder: Place, prefix: str = "") -> Iterator[Entry]:
    """Describe every array at or below `folder`, in the order of their names."""
    here = read_entry(folder, prefix or folder.name)
    if here is not None:
        yield here
        return
    for child in list_folders(folder):
        if not child.name.startswith("."):
            yield from list_arrays(child, f"{prefix}/{child.name}" if prefix else child.name)


def describe(entries: Sequence[Entry], matrix_dims: Sequence[Any] | None = None) -> str:
    """One line an array: name, shape, type, dimensions, and whether it looks like a stack."""
    if not entries:
        return "  (no arrays)"
    width = max(len(e.name) for e in entries[:_SHOWN])
    lines = []
    for e in entries[:_SHOWN]:
        dims = ", ".join(d or "-" for d in e.dims)
        what = e.problem or f"{e.shape} {e.dtype}" + (f" ({dims})" if any(e.dims) else "")
        mark = " <- looks like a stack" if e.looks_like_stack(matrix_dims) else ""
        lines.append(f"  {e.name:<{width}}  {what}{mark}")
    if len(entries) > _SHOWN:
        lines.append(f"  ... and {len(entries) - _SHOWN} more")
    return "\n".join(lines)


def _named_as_coordinates(entries: Sequence[Entry]) -> set[str]:
    """Names of arrays that another array or their group calls a coordinate."""
    names = set()
    for e in entries:
        parent = e.name.rpartition("/")[0]
        texts = [e.attrs.get("coordinates")]
        if e.grouped:
            texts.append(read_group_attrs(e.folder.parent).get("coordinates"))
        for text in texts:
            if isinstance(text, str):
                names |= {f"{parent}/{c}" if parent else c for c in text.split()}
    return names


def choose_entry(
    entries: Sequence[Entry],
    where: str,
    variable: str | None,
    matrix_dims: Sequence[Any] | None,
    mask: str | None = None,
) -> Entry:
    """Pick the array that `source.variable` names, or the only one that looks like a stack.

    Raises
    ------
    Misuse
        When there is none, or more than one; the message lists what is there.
    """
    listing = f"What is there:\n{describe(entries, matrix_dims)}"
    if variable is not None:
        wanted = variable.strip("/")
        for e in entries:
            if e.name == wanted:
                return e
        names = [e.name for e in entries]
        near = names if len(names) == 1 else get_close_matches(wanted, names, n=1, cutoff=0.4)
        hint = f" Did you mean source.variable={near[0]}?" if near else ""
        raise Misuse(f"source.variable={variable} is not an array in {where}.{hint}\n{listing}")
    aside = _named_as_coordinates(entries) | {mask}
    found = [e for e in entries if e.looks_like_stack(matrix_dims) and e.name not in aside]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Misuse(
            f"No array in {where} looks like a stack of matrices (numbers, the two matrix "
            "dimensions of equal length). If one is, name it with source.variable=NAME, and its "
            f"matrix dimensions with source.matrix_dims=[ROW,COLUMN].\n{listing}"
        )
    raise Misuse(
        f"{where} holds {len(found)} arrays that look like a stack of matrices. "
        f"Choose one: source.variable={found[0].name}\n{listing}"
    )
