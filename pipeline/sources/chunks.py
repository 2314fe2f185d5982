"""Whole chunks read from their files straight into the block, where a store is plain enough.

zarr-python copies a chunk twice and makes several small tasks of it; a block mostly is a box of
whole chunks of numbers, compressed or not. Whatever is out of the ordinary (a chunk that is not
there or cannot be decoded, another codec, part of a chunk) is left to zarr-python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
from numpy.typing import NDArray

from pipeline.sources.blosc import HEADER, CutShort, check_frame
from pipeline.sources.inventory import KeyEncoding

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


@dataclass(frozen=True)
class ChunkFiles:
    """The files of an array without shards.

    Attributes
    ----------
    folder : Path
    encoding : KeyEncoding
    shape, chunk : tuple of int
    dtype : numpy.dtype
        As stored; native.
    decode : callable, optional
        From a file's bytes to a chunk's; None where they are the same.
    """

    folder: Path
    encoding: KeyEncoding
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    decode: Callable[[bytes], Any] | None

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
        if self.decode is None and to.shape == self.chunk and to.flags.c_contiguous:
            with file.open("rb", buffering=0) as stream:
                _fill(stream, to.reshape(-1).view(np.uint8).data)
            return
        data = file.read_bytes()
        data = self.decode(data) if self.decode else data
        whole = np.frombuffer(data, self.dtype).reshape(self.chunk)
        to[...] = whole[tuple(map(slice, to.shape))]


def _decode_blosc(decode: Callable[[bytes], Any], data: bytes) -> Any:
    check_frame(data[:HEADER], len(data))
    return decode(data)


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
    chunk, codec = found
    decode = numcodecs.get_codec(codec).decode if codec else None
    if decode and codec and codec["id"] == "blosc":
        decode = partial(_decode_blosc, decode)
    return ChunkFiles(folder, encoding, shape, chunk, dtype, decode)


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
