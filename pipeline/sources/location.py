"""What a `source.path` points at, and what to do when it is not a store."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pipeline.errors import Misuse
from pipeline.places import (
    Place,
    Remote,
    is_icechunk,
    list_folders,
    list_names,
    locate,
    open_icechunk,
    open_zip,
)
from pipeline.sources.listing import describe, is_group, list_arrays, read_entry

_TO_ZARR = (
    "Convert it once with xarray: "
    "xr.open_dataset({path!r}).to_zarr('converted.zarr'), then source.path=converted.zarr"
)


def find_input(path: str, options: Mapping[str, Any]) -> tuple[str, Place]:
    """Find what `path` points at: a "zarr" store or an "npy" file, and the place where it is.

    Raises
    ------
    Misuse
        When it is neither: nothing at all, another format, an empty folder, a store that cannot
        be reached. The message says what is there and how to go on.
    """
    place = locate(path, options)
    try:
        if isinstance(place, Remote):
            return "zarr", _find_remote(place, options)
        if place.is_dir():
            return "zarr", _find_folder(place, options)
        if place.exists():
            return _find_file(place, options)
    except PermissionError as error:
        raise Misuse(f"source.path={path} may not be read: {error}. Check its permissions.") from (
            error
        )
    raise Misuse(_explain_absence(place))


def _find_remote(place: Remote, options: Mapping[str, Any]) -> Place:
    try:
        if place.is_dir():
            return _find_folder(place, options)
        there = ", ".join(place.parent.list_names()[0][:10]) or "nothing that can be listed"
    except FileNotFoundError:
        there = "nothing"
    except OSError as error:
        raise Misuse(
            f"source.path cannot be read: {error}. Check the address, and the credentials "
            f"in the environment or in source.storage_options"
        ) from None
    raise Misuse(
        f"source.path={place} holds no Zarr store (no zarr.json, .zgroup or .zarray). Beside it "
        f"there is: {there}. Other files must be copied to a local disk"
    )


def _find_file(place: Path, options: Mapping[str, Any]) -> tuple[str, Place]:
    with place.open("rb") as file:
        magic = file.read(8)
    if magic.startswith(b"\x93NUMPY"):
        return "npy", place
    if magic.startswith((b"CDF", b"\x89HDF")):
        raise Misuse(f"{place} is a netCDF or HDF5 file. {_TO_ZARR.format(path=str(place))}")
    if magic.startswith(b"PK"):
        if place.suffix == ".npz":
            raise Misuse(
                f"{place} is an .npz archive, which cannot be memory-mapped. Save the one array: "
                f"np.save('stack.npy', np.load({str(place)!r})['NAME']), then "
                "source.path=stack.npy"
            )
        return "zarr", _find_folder(open_zip(place), options)
    if place.name in {"zarr.json", ".zarray", ".zgroup", ".zmetadata"}:
        raise Misuse(f"{place} is a metadata file of a store. Give its folder: {place.parent}")
    raise Misuse(
        f"{place} is a file that is neither a Zarr store nor an .npy file (it starts with "
        f"{magic!r}). Expected: a Zarr folder (v2 or v3) or an .npy file."
    )


def _find_folder(place: Place, options: Mapping[str, Any]) -> Place:
    if is_group(place) or read_entry(place, place.name) is not None:
        return place
    names = list_names(place)
    if is_icechunk(names):
        return open_icechunk(place, options)
    files = [n for n in names if n.endswith((".nc", ".nc4", ".h5", ".hdf5"))]
    if files:
        one = _TO_ZARR.format(path=str(place / files[0]))
        raise Misuse(f"{place} is a folder of {len(files)} netCDF or HDF5 files. {one}")
    if not names:
        raise Misuse(f"{place} is an empty folder, not a Zarr store. Was the copy finished?")
    folders = [folder.name for folder in list_folders(place)]
    stores = [n for n in folders if is_group(place / n) or read_entry(place / n, n) is not None]
    if stores:
        raise Misuse(
            f"{place} is a folder of stores, not a store itself. It holds {_some(stores)}. "
            f"Give one of them, for example source.path={place / stores[0]}"
        )
    raise Misuse(
        f"{place} is a folder without Zarr metadata (no zarr.json, .zgroup or .zarray). "
        f"It holds: {_some(names)}. Expected: a Zarr store (v2 or v3) or an .npy file."
    )


def _explain_absence(place: Path) -> str:
    parent = place.parent
    while not parent.exists():
        parent = parent.parent
    for store in (parent, *parent.parents):
        if is_group(store):
            entries = list(list_arrays(store))
            wanted = place.relative_to(store).as_posix()
            near = get_close_matches(wanted, [e.name for e in entries], n=1, cutoff=0.4)
            hint = f" Did you mean {store / near[0]}?" if near else ""
            return f"{place} does not exist.{hint} The store {store} holds:\n{describe(entries)}"
    if not parent.is_dir():
        return f"{place} does not exist: {parent} is a file."
    names = sorted(child.name for child in parent.iterdir())
    near = get_close_matches(place.name, names, n=1) if parent == place.parent else []
    hint = f" Did you mean {parent / near[0]}?" if near else ""
    return f"{place} does not exist.{hint} In {parent} there is: {_some(names)}."


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "nothing") + more
