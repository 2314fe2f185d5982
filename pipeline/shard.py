"""One block of a result array as the bytes of a Zarr v3 shard or chunk, and these into a file.

zarr-python encodes a shard in copies and one small task a chunk; here the block's own memory goes
to the system as it is, unless a compressor makes other bytes of it. What is written is what
zarr-python reads (specification: zarr v3, codec `sharding_indexed`, index last, with CRC32C).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np
import zarr
from numpy.typing import NDArray

ABSENT = np.iinfo(np.uint64).max
"""Offset and size in the index of a chunk that is not there: all of it is the fill value."""
BUFFERS = 512
"""Buffers handed to the system together; POSIX promises 16, Linux and macOS take 1024."""
Compress = Callable[[NDArray[Any]], Any]


@dataclass(frozen=True)
class ShardWriter:
    """How blocks of one array become files.

    Attributes
    ----------
    folder : Path
        The array's folder.
    shape : tuple of int
        Extents of a shard.
    inner : tuple of int
        Extents of the chunks within; `shape` where an array has no shards.
    dtype : numpy.dtype
        Little-endian.
    fill : scalar
    compress : callable, optional
        Makes other bytes of a contiguous chunk.
    checksum : bool
        Whether the CRC32C of its bytes follows each chunk.
    """

    folder: Path
    shape: tuple[int, ...]
    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any
    sharded: bool
    compress: Compress | None
    checksum: bool

    @classmethod
    def of(cls, array: zarr.Array[Any], folder: Path) -> ShardWriter:
        """Read how an array of ours, whose folder is given, is stored."""
        codecs = [c.to_dict() for c in array.compressors]  # type: ignore[union-attr]  # v3
        compressors = [_find_compressor(c) for c in codecs if c["name"] != "crc32c"]
        return cls(
            folder=folder,
            shape=array.shards or array.chunks,
            inner=array.chunks,
            dtype=array.dtype.newbyteorder("<"),
            fill=array.fill_value,
            sharded=array.shards is not None,
            compress=compressors[0] if compressors else None,
            checksum=bool(codecs) and codecs[-1]["name"] == "crc32c",
        )

    def write(self, start: Sequence[int], values: NDArray[Any]) -> None:
        """Write the block that begins at `start` in one step; that is a shard's corner."""
        corner = (*start, *[0] * (len(self.shape) - len(start)))
        cell = (a // s for a, s in zip(corner, self.shape, strict=True))
        file = self.folder.joinpath("c", *map(str, cell))
        parts = self.encode(values)
        if parts:
            write_whole(file, parts)
        else:
            with suppress(FileNotFoundError):
                file.unlink()

    def encode(self, values: NDArray[Any]) -> list[Any]:
        """Buffers that make up the file; none if all values are the fill value.

        Parameters
        ----------
        values : ndarray
            Of the shard's extents, or less at the array's edge.
        """
        values = values.astype(self.dtype, copy=False)
        counts = [s // c for s, c in zip(self.shape, self.inner, strict=True)]
        index = np.full((*counts, 2), ABSENT, "<u8")
        parts, offset = [], 0
        used = [-(-v // c) for v, c in zip(values.shape, self.inner, strict=True)]
        for cell in product(*map(range, used)):
            place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, self.inner, strict=True))
            chunk = np.asarray(values[place])
            if self._is_empty(chunk):
                continue
            data = self._encode_chunk(chunk)
            index[cell] = offset, sum(map(len, data))
            offset += sum(map(len, data))
            parts += data
        if self.sharded and parts:
            parts += _with_checksum(index.tobytes())
        return parts

    def _is_empty(self, chunk: NDArray[Any]) -> bool:
        # one look at the first value spares nearly every chunk the comparison
        if not _equals(chunk[(0,) * chunk.ndim], self.fill):
            return False
        return bool(np.all(_equals(chunk, self.fill)))

    def _encode_chunk(self, chunk: NDArray[Any]) -> list[Any]:
        if chunk.shape != self.inner:  # a chunk at the edge is stored in full
            whole = np.full(self.inner, self.fill, self.dtype)
            whole[tuple(slice(n) for n in chunk.shape)] = chunk
            chunk = whole
        chunk = np.ascontiguousarray(chunk)
        data = self.compress(chunk) if self.compress else chunk.reshape(-1).view(np.uint8).data
        return _with_checksum(data) if self.checksum else [data]


def _with_checksum(data: Any) -> list[Any]:
    seen = np.frombuffer(data, np.uint8)
    seen.flags.writeable = False  # as google_crc32c wants it
    return [data, google_crc32c.value(seen).to_bytes(4, "little")]


def _equals(values: Any, fill: Any) -> Any:
    return np.isnan(values) if fill != fill else values == fill


def _find_compressor(codec: dict[str, Any]) -> Compress:
    name, settings = codec["name"], dict(codec.get("configuration", {}))
    if name == "blosc":
        shuffles = ("noshuffle", "shuffle", "bitshuffle")
        settings["shuffle"] = shuffles.index(settings["shuffle"])
    encode: Compress = numcodecs.get_codec({"id": name, **settings}).encode
    return encode


def write_whole(file: Path, parts: Sequence[Any]) -> None:
    """Write buffers one after the other into a new file that then takes the place of `file`."""
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.partial")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write_all(descriptor, [memoryview(p).cast("B") for p in parts])
        finally:
            os.close(descriptor)
        draft.replace(file)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _write_all(descriptor: int, parts: list[memoryview]) -> None:
    parts = [p for p in parts if p.nbytes]
    while parts:
        written = os.writev(descriptor, parts[:BUFFERS])
        while parts and written >= parts[0].nbytes:
            written -= parts.pop(0).nbytes
        if written:
            parts[0] = parts[0][written:]
