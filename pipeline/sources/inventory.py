"""One pass over an array's folder: the sizes of its chunk files, and which are absent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse
from pipeline.places import Place


@dataclass(frozen=True)
class KeyEncoding:
    """How a chunk's position becomes the name of its file.

    Attributes
    ----------
    prefix : str
        "c" (v3 default) or "" (v2).
    separator : str
        "/" or ".".
    """

    prefix: str
    separator: str

    def name(self, cell: Sequence[int]) -> str:
        """File name, relative to the array's folder, of the chunk at `cell`."""
        parts = ([self.prefix] if self.prefix else []) + [str(int(i)) for i in cell]
        return self.separator.join(parts) or "0"

    def parse(self, name: str, ndim: int) -> tuple[int, ...] | None:
        """Position of the chunk in the file `name`; None when it is no chunk's name."""
        parts = name.split(self.separator)
        if self.prefix:
            if parts[0] != self.prefix:
                return None
            parts = parts[1:]
        if ndim == 0:
            return () if parts == ([] if self.prefix else ["0"]) else None
        if len(parts) != ndim or not all(p.isascii() and p.isdigit() for p in parts):
            return None
        return tuple(map(int, parts))


def read_encoding(zarr_format: int, metadata: Mapping[str, Any]) -> KeyEncoding:
    """How the array of this metadata names its chunks."""
    if zarr_format == 2:
        return KeyEncoding("", metadata.get("dimension_separator") or ".")
    encoding = metadata["chunk_key_encoding"]
    settings = encoding.get("configuration") or {}
    if encoding["name"] == "v2":
        return KeyEncoding("", settings.get("separator", "."))
    return KeyEncoding("c", settings.get("separator", "/"))


def measure_chunks(
    folder: Place, encoding: KeyEncoding, grid: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Size in bytes of every chunk file on the chunk grid, -1 where there is none.

    Files with other names (leftovers of interrupted writes, `*.partial`, notes) and chunks
    outside of the grid (left by a shrunk array) do not count.

    Raises
    ------
    Misuse
        When chunks are absent and files lie there under another naming scheme: a wrong
        dimension separator reads as all fill values
        (https://github.com/zarr-developers/zarr-python/issues/717).
    """
    sizes = np.full(grid, -1, dtype=np.int64)
    others = [KeyEncoding(p, s) for p in ("", "c") for s in "./" if (p, s) != _pair(encoding)]
    foreign: dict[KeyEncoding, str] = {}
    count = len(grid)
    for name, size in _list_files(folder, encoding, grid):
        cell = encoding.parse(name, count)
        if cell is not None:
            if all(i < n for i, n in zip(cell, grid, strict=True)):
                sizes[cell] = size()
            continue
        for other in others:
            if other.parse(name, count) is not None:
                foreign[other] = min(foreign.get(other, name), name)
    if foreign and count and (sizes < 0).any():
        name = next(iter(foreign.values()))
        raise Misuse(
            f"{folder}: its metadata says chunks are named like "
            f"{encoding.name([0] * count)!r}, but files named like {name!r} lie there, and "
            f"{int((sizes < 0).sum())} chunks are absent. Read like this they would all be fill "
            "values. The dimension separator in the metadata is wrong, or two copies were mixed: "
            "correct the metadata (.zarray 'dimension_separator', zarr.json 'chunk_key_encoding') "
            "or remove the foreign files."
        )
    return sizes


def _pair(encoding: KeyEncoding) -> tuple[str, str]:
    return encoding.prefix, encoding.separator


def _list_files(
    folder: Place, encoding: KeyEncoding, grid: tuple[int, ...]
) -> Iterator[tuple[str, Callable[[], int]]]:
    """Names of what may be chunks, and how to find out their sizes."""
    if isinstance(folder, Path):
        yield from (
            (name, lambda entry=entry: entry.stat().st_size) for name, entry in _walk(folder)
        )
        return
    sizes = folder.list_sizes()
    if not folder.root.has_listing:  # a web server must be asked for every chunk by name
        sizes = folder.measure([encoding.name(cell) for cell in product(*map(range, grid))])
    yield from ((name, lambda size=size: size) for name, size in sizes)


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files that may be chunks: in the folder and in folders named by numbers or `c`."""
    waiting = [(str(folder), "")]
    while waiting:
        place, prefix = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if (entry.name.isdigit() or entry.name == "c") and entry.is_dir():
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                    continue
                yield prefix + entry.name, entry


def digest_sizes(sizes: npt.NDArray[np.int64]) -> str:
    """SHA-256 of the chunk grid and of every chunk's size, absent ones included."""
    text = ",".join(map(str, sizes.shape))
    content = np.ascontiguousarray(sizes, dtype="<i8")
    return hashlib.sha256(text.encode() + b";" + content.tobytes()).hexdigest()
