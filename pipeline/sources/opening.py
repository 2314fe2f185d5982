"""From a path and a variable's name to an opened array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.sources.listing import Entry, choose_entry, list_arrays
from pipeline.sources.location import find_kind
from pipeline.sources.npy import NpyArray
from pipeline.sources.zarr import ZarrArray

Stored = ZarrArray | NpyArray


def list_store(path: str) -> tuple[Path, list[Entry] | None]:
    """What lies at `path`: the arrays of a Zarr store, or None for an `.npy` file.

    Raises
    ------
    Misuse
        When it is neither.
    """
    kind = find_kind(path)
    place = Path(path).expanduser()
    return place, list(list_arrays(place)) if kind == "zarr" else None


def open_array(
    path: str, variable: str | None, matrix_dims: Sequence[Any] | None, mask: str | None
) -> tuple[Stored, list[Entry]]:
    """Open the array that the config names, or the only one that looks like a stack.

    Returns
    -------
    array : ZarrArray or NpyArray
    entries : list of Entry
        All arrays of the store; empty for an `.npy` file.
    """
    place, entries = list_store(path)
    if entries is None:
        return NpyArray(place), []
    if len(entries) == 1 and entries[0].folder == place:
        # The path is an array itself; a variable's name can only repeat it.
        return ZarrArray(choose_entry(entries, str(place), variable or place.name, None)), entries
    return ZarrArray(choose_entry(entries, str(place), variable, matrix_dims, mask)), entries
