"""One Zarr array, read by positions.

The array is opened by zarr-python itself, never through xarray: xarray refuses v3 arrays with
null dimension names or plain-number `_FillValue` (https://github.com/pydata/xarray/issues/11332)
and arrays whose dimensions repeat a name.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import Buffer

from pipeline.errors import Misuse, ReadError, StorageLost
from pipeline.places import Remote, Subtree
from pipeline.sources.blosc import HEADER, check_frame, holds_frames
from pipeline.sources.chunks import ChunkFiles, find_chunk_files
from pipeline.sources.inventory import KeyEncoding, digest_sizes, measure_chunks, read_encoding
from pipeline.sources.listing import Entry
from pipeline.sources.packing import decode_fill, plain
from pipeline.sources.positions import Positions, ascend, restore, walk_cells
from pipeline.sources.shards import ShardLayout, find_layout, read_present
from pipeline.sources.watched import WatchedStore

log = logging.getLogger("eigenstream")
_opening = threading.Lock()
REQUESTS = 16
"""Requests for shard indices that are under way at once."""


class ZarrArray:
    """An array of a Zarr store: metadata, chunk inventory, reading.

    Opened again in every process that unpickles it.

    Attributes
    ----------
    name : str
        Name inside the store.
    names : tuple of str or None
        Names of the dimensions.
    shape : tuple of int
    dtype : numpy.dtype
        As stored.
    attrs : dict
    chunk : tuple of int
        Shape of the unit that can be decoded by itself: a chunk, or a shard's inner chunk.
    cell : tuple of int
        Shape of the unit that can be absent; `chunk`, or a part of it for shards that can
        only be decoded whole.
    mapped : bool
        Whether it is one file without chunks, coordinates or absent parts; here not.
    """

    mapped = False

    def __init__(self, entry: Entry) -> None:
        if entry.problem:
            raise Misuse(f"{entry.folder}: {entry.problem}")
        self.entry = entry
        self.name, self.names, self.attrs = entry.name, entry.dims, dict(entry.attrs)
        array = self._array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype
        self._file = _read_chunk_shape(entry)
        self._shards: ShardLayout | None = None
        if entry.zarr_format == 3:
            self._shards, reason = find_layout(entry.metadata["codecs"], self._file)
            if reason:
                log.warning(
                    "%s: %s, so absent parts inside a shard cannot be told from present ones "
                    "and read as the fill value",
                    self.where,
                    reason,
                )
        self.cell = self._shards.inner if self._shards else self._file
        partial = self._shards is not None and self._shards.alone
        self.chunk = self.cell if partial else self._file

    @property
    def where(self) -> str:
        """The array, for messages."""
        folder = self.entry.folder
        if not self.entry.grouped:
            return str(folder)
        return f"{self.name!r} in {folder.parents[self.name.count('/')]}"

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one decoded chunk."""
        return prod(self.chunk) * self.dtype.itemsize

    @property
    def fill(self) -> Any:
        """The fill value: what absent chunks read as."""
        return self._array.fill_value if self._array.fill_value is not None else 0

    @property
    def missing_value(self) -> list[Any]:
        """The values that CF attributes declare to mean "no value", decoded.

        In v2 xarray keeps `_FillValue` in the array's fill value. There a fill value other
        than 0 counts when xarray (or one who writes for it) made the array.
        """
        declared = [self.attrs[k] for k in ("_FillValue", "missing_value") if k in self.attrs]
        fills = [f for d in declared for f in decode_fill(d, self.dtype)]
        if self.entry.zarr_format == 2 and "_ARRAY_DIMENSIONS" in self.attrs:
            fill = self._array.fill_value
            if fill is not None and self.dtype.kind in "iufc" and fill != 0:
                fills.append(fill)
        return fills

    @cached_property
    def _array(self) -> zarr.Array[Any]:
        folder = self.entry.folder
        store: Subtree | WatchedStore
        if isinstance(folder, Remote):
            store = folder.store.with_read_only(True)  # a copy would not be watched
        else:
            store = WatchedStore(folder, read_only=True)
        try:
            # zarr-python warns about codecs and data types outside of the v3 specification, and
            # about sharding beside other codecs. They are the writer's choice, not the reader's.
            with _opening, warnings.catch_warnings():
                warnings.filterwarnings("ignore", module=r"zarr\.|numcodecs", category=Warning)
                warnings.filterwarnings("ignore", message=r".*(?i:zarr)")
                array = zarr.open_array(store, zarr_format=self.entry.zarr_format, mode="r")  # type: ignore[arg-type]
        except Exception as error:
            raise Misuse(self._explain(error)) from error
        store.watch = self._watch
        return array

    def _explain(self, error: Exception) -> str:
        m = self.entry.metadata
        codecs = m.get("codecs") or [m.get("compressor"), *(m.get("filters") or [])]
        names = [c.get("name", c.get("id")) for c in codecs if isinstance(c, dict)]
        return (
            f"{self.where} (shape {self.entry.shape}, type {self.entry.dtype}, codecs {names}) "
            f"cannot be opened by zarr-python: {error}. If a codec or data type is unknown, "
            "install the package that provides it, or write the array again with another one: "
            "xr.open_zarr(...).to_zarr(...) where it can be read."
        )

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_array", "_files")}

    @cached_property
    def _files(self) -> ChunkFiles | None:
        entry, shape = self.entry, self.shape
        if isinstance(entry.folder, Remote):
            return None
        known = entry.zarr_format, entry.metadata
        return find_chunk_files(entry.folder, self._encoding, *known, shape, self.dtype)

    # The inventory

    @cached_property
    def _encoding(self) -> KeyEncoding:
        return read_encoding(self.entry.zarr_format, self.entry.metadata)

    @property
    def _grid(self) -> tuple[int, ...]:
        return tuple(-(-n // c) for n, c in zip(self.shape, self._file, strict=True))

    def take_inventory(self) -> None:
        """Look once which chunk files are there and how large they are."""
        sizes = measure_chunks(self.entry.folder, self._encoding, self._grid)
        self.digest = digest_sizes(sizes)
        self._present = sizes >= 0

    def _watch(self, key: str, found: Buffer | None) -> None:
        """Refuse a chunk that was there when the inventory was taken and is gone, or cut short."""
        cell = self._encoding.parse(key, len(self.shape))
        present: npt.NDArray[np.bool_] | None = self.__dict__.get("_present")
        if cell is None or present is None:
            return
        if found is None and present[cell]:
            raise FileNotFoundError(f"chunk {key} was there when the run was planned and is gone")
        if found is not None and holds_frames(self.entry.zarr_format, self.entry.metadata):
            check_frame(found[:HEADER].to_bytes(), len(found))

    def find_absent(self, touched: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_] | None:
        """Which cells (see `cell`) are absent, looking into shards only where touched.

        Parameters
        ----------
        touched : sequence of int arrays
            Along every dimension, the cells that will be read.

        Returns
        -------
        array of bool over the grid of cells, or None when nothing is absent
        """
        absent = ~self._present
        if self._shards is None:
            return absent if absent.any() else None
        for axis, count in enumerate(self._shards.counts):
            absent = absent.repeat(count, axis=axis)
        counts = self._shards.counts
        files = [np.unique(t // c) for t, c in zip(touched, counts, strict=True)]
        there = [file for file in product(*(f.tolist() for f in files)) if self._present[file]]
        for file, inside in zip(there, self._look_into(there), strict=True):
            if inside is not None and not inside.all():
                place = [slice(i * c, (i + 1) * c) for i, c in zip(file, counts, strict=True)]
                absent[tuple(place)] = ~inside
        # Inner chunks beyond a ragged edge need not be there.
        ends = [-(-n // c) for n, c in zip(self.shape, self.cell, strict=True)]
        absent = absent[tuple(slice(e) for e in ends)]
        return absent if absent.any() else None

    def _look_into(
        self, files: Sequence[tuple[int, ...]]
    ) -> Iterator[npt.NDArray[np.bool_] | None]:
        """Which inner chunks each of these shards holds."""
        shards = self._shards
        assert shards is not None
        places = [self.entry.folder / self._encoding.name(file) for file in files]
        if not isinstance(self.entry.folder, Remote):
            yield from (read_present(place, shards) for place in places)
            return
        with ThreadPoolExecutor(REQUESTS) as pool:  # each is a request, and mostly waiting
            yield from pool.map(lambda place: read_present(place, shards), places)

    def name_cell(self, cell: Sequence[int]) -> str:
        """Name of the file, and of the inner chunk of a shard, that holds a cell."""
        if self._shards is None:
            return self._encoding.name(cell)
        counts = self._shards.counts
        file = [i // c for i, c in zip(cell, counts, strict=True)]
        inner = tuple(i % c for i, c in zip(cell, counts, strict=True))
        return f"{self._encoding.name(file)} (inner chunk {inner} of this shard)"

    # Reading

    def read(self, positions: Sequence[Positions]) -> npt.NDArray[Any]:
        """Values at the outer product of `positions`, one entry a stored dimension.

        Every chunk is decoded once.

        Raises
        ------
        ReadError
            A chunk is damaged, or gone since the start; it is named.
        StorageLost
            The array's folder is gone.
        """
        if any(len(p) == 0 for p in positions):
            return np.empty([len(p) for p in positions], dtype=self.dtype)
        try:
            return self._select(positions)
        except MemoryError:
            raise
        except Exception as error:
            if isinstance(self.entry.folder, Remote) and isinstance(error, OSError):
                # tried again often enough; it names its chunk, and gives the store's own words
                raise ReadError(f"{self.where} cannot be read: {error}") from error
            if not self.entry.folder.is_dir():
                raise StorageLost(f"{self.entry.folder} cannot be reached any more") from error
            culprit, cause = self._find_culprit(positions) or ("", error)
            named = f"chunk {culprit} of " if culprit else ""
            raise ReadError(f"{named}{self.where} cannot be read: {cause!r}") from error

    def _select(self, positions: Sequence[Positions]) -> npt.NDArray[Any]:
        if not positions:
            return np.asarray(self._array[...])
        if self._files and (whole := self._files.read(positions)) is not None:
            return whole
        picks, orders = ascend(positions)
        return restore(np.asarray(self._array.get_orthogonal_selection(picks)), orders)

    def _find_culprit(self, positions: Sequence[Positions]) -> tuple[str, Exception] | None:
        for cell, place in walk_cells(positions, self._file, self.shape):
            try:
                self._select(place)
            except Exception as error:
                return self._encoding.name(cell), error
        return None

    def identify(self) -> dict[str, Any]:
        """What makes this array this array, without where it lies."""
        return {
            "format": f"zarr {self.entry.zarr_format}",
            # A root array has no name of its own: its folder's name is where it lies.
            "variable": self.name.rpartition("/")[2] if self.entry.grouped else None,
            "metadata": plain(self.entry.metadata),
            "attributes": plain(self.attrs),
            "chunks": self.digest,
        }


def _read_chunk_shape(entry: Entry) -> tuple[int, ...]:
    """Shape of what one file holds: a chunk, or a shard."""
    if entry.zarr_format == 2:
        shape = entry.metadata["chunks"]
    else:
        shape = entry.metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(max(int(n), 1) for n in shape)
