"""Whole chunks read from their files straight into the block, where a store is plain enough.

zarr-python copies a chunk twice and makes several small tasks of it; a block mostly is a box of
whole chunks of numbers, compressed or not. Whatever is out of the ordinary (a chunk that is not
there or cannot be decoded, another codec, part of a chunk) is left to zarr-python.

Memory that is touched for the first time costs as much as decoding into it: so a chunk is decoded
where its values belong, and what else is needed is kept for the next one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
from numpy.typing import NDArray

from pipeline.sources.blosc import HEADER, CutShort, check_frame
from pipeline.sources.inventory import KeyEncoding

KEPT_BYTES = 64 << 20
"""Of a chunk whose room is kept."""
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


@dataclass(frozen=True)
class ChunkFiles:
    """The files of an array without shards.

    Attributes
    ----------
    folder : Path
    encoding : KeyEncoding
    shape, chunk : tuple of int
    codec : dict, optional
        How a file's bytes become a chunk's, as numcodecs names it; None where they are the same.
    dtype : numpy.dtype
        As stored; native.
    """

    folder: Path
    encoding: KeyEncoding
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    codec: dict[str, Any] | None
    dtype: np.dtype[Any]

    def read(self, positions: Sequence[Any]) -> NDArray[Any] | None:
        """Values of a box of whole chunks; None for what zarr-python shall read."""
        if not all(map(self._is_whole, positions, self.shape, self.chunk)):
            return None
        values = np.empty([len(p) for p in positions], self.dtype)
        try:
            for cell in product(*map(self._list_cells, positions, self.chunk)):
                self._read_chunk(cell, values[tuple(self._place(cell, positions))])
        except CutShort:
            raise
        except Exception:  # codecs raise what they like; zarr-python will say what is wrong
            return None
        return values

    @staticmethod
    def _is_whole(positions: Any, size: int, chunk: int) -> bool:
        if not isinstance(positions, range) or positions.step != 1 or not positions:
            return False
        return positions.start % chunk == 0 and (
            positions.stop % chunk == 0 or positions.stop == size
        )

    @staticmethod
    def _list_cells(positions: range, chunk: int) -> range:
        return range(positions.start // chunk, -(-positions.stop // chunk))

    def _place(self, cell: Sequence[int], positions: Sequence[range]) -> Iterator[slice]:
        for i, c, p in zip(cell, self.chunk, positions, strict=True):
            yield slice(i * c - p.start, (i + 1) * c - p.start)

    def _read_chunk(self, cell: Sequence[int], to: NDArray[Any]) -> None:
        file = self.folder / self.encoding.name(cell)
        direct = to.shape == self.chunk and to.flags.c_contiguous
        with file.open("rb", buffering=0) as stream:
            if self.codec is None and direct:
                _fill(stream, to.reshape(-1).view(np.uint8).data)
                return
            data = borrow("stored", os.fstat(stream.fileno()).st_size)
            _fill(stream, data.data)
        if direct:
            self._decode(data, to)
            return
        whole = data if self.codec is None else borrow("decoded", self._chunk_bytes)
        if self.codec is not None:
            self._decode(data, whole)
        to[...] = whole.view(self.dtype).reshape(self.chunk)[tuple(map(slice, to.shape))]

    @property
    def _chunk_bytes(self) -> int:
        return prod(self.chunk) * self.dtype.itemsize

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(self.codec)

    def _decode(self, data: NDArray[np.uint8], to: NDArray[Any]) -> None:
        """Decode a chunk into `to`; raise where it does not fill it exactly."""
        assert self.codec is not None
        name, head = self.codec["id"], data[:HEADER].tobytes()
        if name == "blosc":
            check_frame(head, len(data))
        if name in SIZES and SIZES[name](head) == to.nbytes:
            # the codec checks that there is room, and for no less than the frame says
            self._codec.decode(data, out=to)
            return
        whole = np.frombuffer(self._codec.decode(data), np.uint8)
        to.reshape(-1).view(np.uint8)[...] = whole


_kept = threading.local()


def borrow(name: str, size: int) -> NDArray[np.uint8]:
    """Lend memory that this thread keeps, until it asks for the same name again."""
    memory: NDArray[np.uint8] | None = getattr(_kept, name, None)
    if memory is None or memory.size < size:
        memory = np.empty(size + size // 8, np.uint8)
        if size <= KEPT_BYTES:
            setattr(_kept, name, memory)
    return memory[:size]


def read_zstd_size(head: bytes) -> int | None:
    """Bytes that a Zstandard frame says it holds; None where it does not (RFC 8878, 3.1.1.1)."""
    flags = head[4]
    single, dictionary, size = flags >> 5 & 1, (0, 1, 2, 4)[flags & 3], flags >> 6
    if head[:4] != b"\x28\xb5\x2f\xfd" or (not size and not single):
        return None
    start, length = 6 - single + dictionary, 1 << size
    return int.from_bytes(head[start : start + length], "little") + (256 if length == 2 else 0)


SIZES: dict[str, Callable[[bytes], int | None]] = {
    "zstd": read_zstd_size,
    "blosc": lambda head: int.from_bytes(head[4:8], "little"),
    "lz4": lambda head: int.from_bytes(head[:4], "little"),
}
"""Bytes that are decoded, as the first of those stored say; for codecs that decode in place."""


def _fill(stream: Any, to: memoryview) -> None:
    """Read exactly as many bytes as there is room for."""
    while to.nbytes:
        count = stream.readinto(to)
        if not count:
            raise ValueError("the file is shorter than a chunk")
        to = to[count:]
    if stream.read(1):
        raise ValueError("the file is longer than a chunk")


def find_chunk_files(
    folder: Path,
    encoding: KeyEncoding,
    zarr_format: int,
    metadata: dict[str, Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> ChunkFiles | None:
    """How to read an array's chunks directly; None where its codecs are out of the ordinary."""
    found = _read_v2(metadata) if zarr_format == 2 else _read_v3(metadata)
    if found is None or dtype.kind not in "iufc" or not dtype.isnative or not shape:
        return None
    return ChunkFiles(folder, encoding, shape, *found, dtype)


Found = tuple[tuple[int, ...], dict[str, Any] | None]
KNOWN = ("zstd", "blosc", "gzip", "zlib", "lz4")


def _read_v2(metadata: dict[str, Any]) -> Found | None:
    codec = metadata.get("compressor")
    plain = metadata.get("order") == "C" and not metadata.get("filters")
    if not plain or (codec and codec.get("id") not in KNOWN):
        return None
    return tuple(metadata["chunks"]), codec


def _read_v3(metadata: dict[str, Any]) -> Found | None:
    codecs = metadata["codecs"]
    if metadata["chunk_grid"]["name"] != "regular" or not 1 <= len(codecs) <= 2:
        return None
    if codecs[0]["name"] != "bytes" or any(c["name"] not in KNOWN for c in codecs[1:]):
        return None
    endian = (codecs[0].get("configuration") or {}).get("endian", sys.byteorder)
    if endian != sys.byteorder:
        return None
    codec = None
    if len(codecs) == 2:
        codec = {"id": codecs[1]["name"], **(codecs[1].get("configuration") or {})}
        if codec["id"] == "blosc":
            codec["shuffle"] = SHUFFLES.index(codec["shuffle"])
            codec.pop("typesize", None)
    return tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]), codec
