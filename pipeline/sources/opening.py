"""From a path and a variable's name to an opened array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import Misuse
from pipeline.places import Place, Remote
from pipeline.sources.listing import Entry, choose_entry, list_arrays
from pipeline.sources.location import find_input
from pipeline.sources.npy import NpyArray
from pipeline.sources.unpacked import Unpacked
from pipeline.sources.zarr import ZarrArray

Stored = ZarrArray | NpyArray | Unpacked


def list_store(path: str, options: Mapping[str, Any]) -> tuple[Place, list[Entry] | None]:
    """What lies at `path`: the arrays of a Zarr store, or None for an `.npy` file.

    Raises
    ------
    Misuse
        When it is neither.
    """
    kind, place = find_input(path, options)
    if kind == "npy":
        return place, None
    entries = list(list_arrays(place))
    if not entries and isinstance(place, Remote) and not place.root.has_listing:
        raise Misuse(
            f"source.path={place} is a group on a web server, which cannot list what it holds, and "
            f"its metadata is not consolidated. Give the URL of the array itself, {place}/NAME; or "
            f"have zarr.consolidate_metadata run on the store"
        )
    return place, entries


def open_array(
    path: str,
    options: Mapping[str, Any],
    variable: str | None,
    matrix_dims: Sequence[Any] | None,
    mask: str | None,
) -> tuple[Stored, list[Entry]]:
    """Open the array that the config names, or the only one that looks like a stack.

    Returns
    -------
    array : ZarrArray or NpyArray
    entries : list of Entry
        All arrays of the store; empty for an `.npy` file.
    """
    place, entries = list_store(path, options)
    if entries is None:
        assert isinstance(place, Path)  # mapped into memory: `find_input` finds no others
        return NpyArray(place), []
    if len(entries) == 1 and entries[0].folder == place:
        # The path is an array itself; a variable's name can only repeat it.
        return ZarrArray(choose_entry(entries, str(place), variable or place.name, None)), entries
    return ZarrArray(choose_entry(entries, str(place), variable, matrix_dims, mask)), entries
