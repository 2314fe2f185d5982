"""A place in a store that is no folder on a disk: as much of `pathlib.Path` as the program uses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from zarr.abc.store import RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.common import concurrent_map
from zarr.core.sync import collect_aiterator, sync
from zarr.storage import ZipStore

from pipeline.places import bucket, filesystem, snapshot
from pipeline.places.options import read_options
from pipeline.places.subtree import Subtree
from pipeline.redaction import list_secrets

Kind = Literal["objects", "zip", "icechunk", "fsspec"]
REQUESTS = 32
"""Requests for sizes that are under way at once."""
METADATA = ("zarr.json", ".zarray", ".zgroup")


@dataclass(frozen=True)
class Root:
    """A whole store: its kind, where it is, and how it is opened. Picklable; opened once in each
    process.

    Attributes
    ----------
    kind : str
        How it is opened.
    url : str
        Bucket, server, file or repository.
    options : str
        Storage options, packed; never shown.
    """

    kind: Kind
    url: str
    options: str = field(default="{}", repr=False)

    @property
    def has_listing(self) -> bool:
        """Whether it can say what it holds; web servers cannot."""
        return not self.url.startswith("http")

    @property
    def bucket(self) -> Any:
        """The obstore store behind a store of objects."""
        return bucket.open_bucket(self.url, self.options)


@cache
def open_root(root: Root) -> Store:
    """Open a whole store."""
    if root.kind == "objects":
        return bucket.open_objects(root.url, root.options)
    if root.kind == "icechunk":
        return snapshot.open_snapshot(root.url, root.options)
    if root.kind == "fsspec":
        return filesystem.open_filesystem(root.url, root.options)
    store = ZipStore(Path(root.url), mode="r", read_only=True)
    sync(store._open())
    return store


@dataclass(frozen=True)
class Remote:
    """A key in a store.

    Attributes
    ----------
    root : Root
        The store.
    key : str
        The key, without slashes at its ends; empty for the whole.
    """

    root: Root
    key: str = ""

    def __str__(self) -> str:
        return f"{self.root.url}/{self.key}".rstrip("/")

    def __truediv__(self, name: str | Path) -> Remote:
        return replace(self, key="/".join(p for p in (self.key, str(name).strip("/")) if p))

    def __lt__(self, other: Remote) -> bool:
        return self.key < other.key

    @property
    def name(self) -> str:
        """Last part of the key; of a whole store, of where it is."""
        return PurePosixPath(self.key or self.root.url).name

    @property
    def parent(self) -> Remote:
        """The place above; of a whole store, itself."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def parents(self) -> list[Remote]:
        """All places above, the nearest first."""
        parts = self.key.split("/") if self.key else []
        return [replace(self, key="/".join(parts[:i])) for i in reversed(range(len(parts)))]

    def with_name(self, name: str) -> Remote:
        """The place beside this one."""
        return self.parent / name

    @property
    def store(self) -> Subtree:
        """What lies here, as a Zarr store."""
        secrets = list(list_secrets(read_options(self.root.options)))
        return Subtree(open_root(self.root), self.key, self.root.url, secrets)

    # Reading

    def read_bytes(self) -> bytes:
        """Read the object here; raises FileNotFoundError where there is none."""
        return self._read(None)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Read the object here as text."""
        return self.read_bytes().decode(encoding, errors)

    def read_head(self, count: int) -> bytes:
        """Read the first bytes."""
        return self._read(RangeByteRequest(0, count))

    def read_tail(self, count: int) -> bytes:
        """Read the last bytes."""
        return self._read(SuffixByteRequest(count))

    def _read(self, part: Any) -> bytes:
        found = sync(self.parent.store.get(self.name, default_buffer_prototype(), part))
        if found is None:
            raise FileNotFoundError(f"{self} is absent")
        return found.to_bytes()

    def is_file(self) -> bool:
        """Whether there is an object here."""
        if self.root.kind == "icechunk" and self.name.startswith("."):
            return False  # it holds Zarr v3 only, and calls it an error to be asked
        return bool(self.key) and sync(self.parent.store.exists(self.name))

    def is_dir(self) -> bool:
        """Whether there are objects below; on a web server, whether it is a node of a store."""
        if self.root.kind != "objects" or not self.root.has_listing:
            return not self.key or any((self / name).is_file() for name in METADATA)
        return any(self.list_names())

    def exists(self) -> bool:
        """Whether there is anything."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """Stores have no links."""
        return False

    def list_names(self) -> tuple[list[str], list[str]]:
        """List the names of the folders and of the objects right below."""
        if not self.root.has_listing:
            return self._list_consolidated(), []
        if self.root.kind == "objects":
            with self.store.translated():
                return bucket.list_folder(self.root.bucket, self.key)
        names = sorted(set(collect_aiterator(self.store.list_dir(""))))
        folders = [name for name in names if (self / name).is_dir()]
        return folders, [name for name in names if name not in folders]

    def _list_consolidated(self) -> list[str]:
        """Names below, as consolidated metadata list them: all that a web server can tell."""
        for place in (self, *self.parents):
            below = self.key.removeprefix(place.key).strip("/")
            nodes = [
                n for n in place._read_consolidated() if n.startswith(f"{below}/" * bool(below))
            ]
            if nodes:
                return sorted({n.removeprefix(below).strip("/").partition("/")[0] for n in nodes})
        return []

    def _read_consolidated(self) -> list[str]:
        for name in ("zarr.json", ".zmetadata"):
            try:
                found = json.loads((self / name).read_bytes())
            except (FileNotFoundError, ValueError):
                continue
            nodes = found.get("consolidated_metadata") or found
            keys = [str(key) for key in nodes.get("metadata") or {}]
            return sorted({key.rpartition("/.z")[0] if "/.z" in key else key for key in keys})
        return []

    def list_sizes(self) -> Iterator[tuple[str, int]]:
        """List every object below by its key from here, with its size."""
        if self.root.kind == "objects":
            with self.store.translated():
                start = len(self.key) + 1 if self.key else 0
                for key, size in bucket.list_sizes(self.root.bucket, self.key):
                    yield key[start:], size
            return
        yield from self.measure(collect_aiterator(self.store.list()))

    def measure(self, names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Ask for the size of each of these objects; those that are absent are left out."""
        store = self.store

        async def ask(name: str) -> int:
            try:
                return await store.getsize(name)
            except FileNotFoundError:
                return -1

        sizes = sync(concurrent_map([(name,) for name in names], ask, limit=REQUESTS))
        yield from ((n, size) for n, size in zip(names, sizes, strict=True) if size >= 0)

    # Writing, on object stores only

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write the object here, whole."""
        self.write_bytes(text.encode(encoding))

    def write_bytes(self, content: bytes) -> None:
        """Write the object here, whole."""
        buffer = default_buffer_prototype().buffer.from_bytes(content)
        sync(self.parent.store.set(self.name, buffer))

    def clear(self, keep: str | None = None) -> None:
        """Remove every object below, but for those whose key starts with `keep`."""
        with self.store.translated():
            found = [key for key, _ in bucket.list_sizes(self.root.bucket, self.key)]
            if keep:
                found = [key for key in found if not key.startswith((self / keep).key)]
            bucket.remove_objects(self.root.bucket, found)

    def create(self, content: bytes) -> bool:
        """Write the object here unless there is one; says whether it was written."""
        with self.parent.store.translated(self.name):
            return bucket.create_object(self.root.bucket, self.key, content)

    def read_time(self) -> float:
        """Seconds since 1970, by the store's clock, at which the object was written."""
        with self.parent.store.translated(self.name):
            return bucket.read_time(self.root.bucket, self.key).timestamp()

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object here."""
        del missing_ok  # stores do not say whether there was one
        sync(self.parent.store.delete(self.name))
