"""Places: where data lies. A folder on a disk is a `pathlib.Path`; everything else a `Remote`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zipfile import BadZipFile

from pipeline.errors import Misuse
from pipeline.places.bucket import SCHEMES
from pipeline.places.options import pack_options
from pipeline.places.remote import Remote, Root, open_root
from pipeline.places.snapshot import pin_snapshot
from pipeline.places.subtree import Subtree
from pipeline.redaction import hide

__all__ = [
    "Place",
    "Remote",
    "Root",
    "Subtree",
    "claim",
    "is_icechunk",
    "list_folders",
    "list_names",
    "locate",
    "open_icechunk",
    "open_zip",
    "pick",
    "read_head",
    "read_tail",
    "read_time",
    "replace_text",
    "touch",
]

Place = Path | Remote


def locate(text: str, options: Mapping[str, Any], key: str = "source") -> Place:
    """Find the place that a path or URL names.

    Parameters
    ----------
    text : str
        A path, or a URL such as `s3://bucket/H.zarr`.
    options : mapping
        Storage options.
    key : str
        The group of the config that named it, for messages.

    Raises
    ------
    Misuse
        For a URL that holds credentials: it would be written down in many places.
    """
    if "://" not in text:
        return Path(text).expanduser()
    parts = urlsplit(text)
    if "@" in parts.netloc or parts.query:
        shown = hide(text, [f"?{parts.query}"] if parts.query else [])
        raise Misuse(
            f"{key}.path={shown} holds credentials or a query, and a path is written into the "
            f"log and the output. Give the URL without them, and credentials in the environment "
            f"or in {key}.storage_options"
        )
    packed = pack_options(options)
    if parts.scheme in SCHEMES:
        return Remote(
            Root("objects", f"{parts.scheme}://{parts.netloc}", packed), parts.path.strip("/")
        )
    return Remote(Root("fsspec", text.rstrip("/"), packed))


def open_zip(path: Path) -> Remote:
    """The place within a zip archive on a disk."""
    place = Remote(Root("zip", str(path)))
    try:
        open_root(place.root)
    except BadZipFile as error:
        raise Misuse(f"{path} is a damaged zip archive: {error}. Copy or make it again") from error
    return place


def open_icechunk(place: Place, options: Mapping[str, Any]) -> Remote:
    """The place within a snapshot of an icechunk repository."""
    return Remote(Root("icechunk", str(place), pin_snapshot(str(place), pack_options(options))))


def is_icechunk(names: Iterable[str]) -> bool:
    """Whether a folder that holds these names is an icechunk repository."""
    there = set(names)
    return {"refs", "snapshots", "manifests"} <= there or {"repo", "chunks"} <= there


def list_names(place: Place) -> list[str]:
    """List the names of all that is right below a place."""
    if isinstance(place, Remote):
        folders, files = place.list_names()
        return sorted(folders + files)
    return sorted(child.name for child in place.iterdir())


def list_folders(place: Place) -> list[Any]:
    """List the folders right below a place, by name; links that lead back up are left out."""
    if isinstance(place, Remote):
        return [place / name for name in place.list_names()[0]]
    return [
        child
        for child in sorted(place.iterdir())
        if child.is_dir()
        and not (child.is_symlink() and place.resolve().is_relative_to(child.resolve()))
    ]


def read_head(place: Place, count: int) -> bytes:
    """Read the first bytes of a file."""
    if isinstance(place, Remote):
        return place.read_head(count)
    with place.open("rb") as file:
        return file.read(count)


def read_tail(place: Place, count: int) -> bytes:
    """Read the last bytes of a file."""
    if isinstance(place, Remote):
        return place.read_tail(count)
    with place.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - count))
        return file.read(count)


def claim(draft: Place, target: Place) -> bool:
    """Give a file a second name, whole and at once; False if that name is taken.

    On a disk by a link, on an object store by a conditional put (If-None-Match).
    """
    if isinstance(target, Remote):
        return target.create(draft.read_bytes())
    try:
        os.link(str(draft), target)
        return True
    except FileExistsError:
        return False


def touch(place: Place) -> None:
    """Make a file as young as can be, by the clock of whoever stores it."""
    if isinstance(place, Remote):
        place.write_bytes(place.read_bytes())
    else:
        os.utime(place)


def read_time(place: Place) -> float:
    """Tell when a file was last written, by the clock of whoever stores it."""
    return place.read_time() if isinstance(place, Remote) else place.stat().st_mtime


def replace_text(place: Place, text: str) -> None:
    """Write a file in one step: whoever reads sees the old text or the new."""
    if isinstance(place, Remote):
        place.write_text(text)
        return
    draft = place.with_name(f"draft.{uuid.uuid4().hex}.partial")
    draft.write_text(text, encoding="utf-8")
    draft.replace(place)


def pick(place: Place) -> Path | Subtree:
    """What zarr and xarray take for a place."""
    return place.store if isinstance(place, Remote) else place
