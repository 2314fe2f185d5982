"""A stack of matrices in a store: what to read, in which order, and what is missing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from pipeline.errors import ReadError
from pipeline.plan import Block
from pipeline.sources.absence import find_wanted, refuse_absent
from pipeline.sources.coordinates import read_coords
from pipeline.sources.layout import arrange
from pipeline.sources.listing import Entry
from pipeline.sources.mask import Mask, open_mask
from pipeline.sources.npy import NpyArray
from pipeline.sources.opening import Stored, open_array
from pipeline.sources.packing import APPLIED, plan_packing
from pipeline.sources.regions import describe_region, find_rectangles, gather_runs, spread_runs
from pipeline.sources.selection import Axis, resolve
from pipeline.sources.zarr import ZarrArray

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

log = logging.getLogger("eigenstream")
Bools = npt.NDArray[np.bool_]


class Source:
    """A stack of square matrices, selected and labelled; read block by block.

    Picklable: it holds addresses and labels; the store is opened again in every process.

    Attributes
    ----------
    dims, shape : tuple
        Batch dimensions after selection; both empty for a single matrix.
    n : int
        Size of a matrix.
    dtype : numpy.dtype
        As delivered: float32, float64, complex64 or complex128 in native byte order.
    stored_dtype : numpy.dtype
        As in the store.
    row_dim : str
        Name of the matrices' row dimension.
    name : str
        The variable's name.
    attrs : dict
        The variable's attributes (JSON-able), without those that describe its storage.
    coords : xarray.Dataset
        Coordinates over batch and row dimensions and scalar ones, decoded, in memory, after
        selection; its attributes are the group's.
    chunks : tuple of tuple of int
        Extents of the stored chunks along every batch dimension of the selection.
    chunk_bytes : int
        Bytes of one decoded chunk.

    Raises
    ------
    Misuse
        Whatever makes the stack unreadable as configured, before any work.
    """

    def __init__(self, config: SourceConfig) -> None:
        stored, entries = self._open(config)
        self._stored = stored
        self._packing = plan_packing(stored.where, stored.dtype, stored.attrs, stored.missing_value)
        self._layout = arrange(stored.where, stored.names, stored.shape, config.matrix_dims)
        self.n = stored.shape[self._layout.row]
        self.dtype, self.stored_dtype = self._packing.dtype, stored.dtype
        self.row_dim, self.name = self._layout.row_dim, stored.name.rpartition("/")[2]
        self.attrs = _choose_attrs(stored.attrs, config.units)
        full = tuple(stored.shape[a] for a in self._layout.axes)
        coords = self._load_coords(full)
        self._axes = self._select(config, full, coords)
        self._kept = tuple(ax for ax in self._axes if not ax.dropped)
        self.dims = tuple(ax.dim for ax in self._kept)
        self.shape = tuple(len(ax.positions) for ax in self._kept)
        self.coords = coords.isel(
            {ax.dim: ax.indexer for ax in self._axes if ax.dim in coords.dims}
        )
        chunk, _ = self._grids()
        self.chunks = tuple(
            ax.cut(chunk[a]).extents
            for ax, a in zip(self._axes, self._layout.axes, strict=True)
            if not ax.dropped
        )
        self.chunk_bytes = prod(chunk) * stored.dtype.itemsize
        self._mask: Mask | None = None
        if config.mask:
            opened = open_mask(config.mask, config.storage_options, entries)
            self._mask = Mask(opened, self._layout.dims, full)
        self._policy = str(getattr(config.missing, "value", config.missing))
        self._absent = self._survey(coords)

    # Opening

    def _open(self, config: SourceConfig) -> tuple[Stored, list[Entry]]:
        """The array, and all arrays of its store."""
        return open_array(
            config.path,
            config.storage_options,
            config.variable,
            config.matrix_dims,
            config.mask,
        )

    def _grids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of what is decoded at once, and of what can be absent."""
        if self._stored.mapped:
            assert not isinstance(self._stored, ZarrArray)
            piece = self._stored.cut(self._layout.axes)
            return piece, piece
        assert not isinstance(self._stored, NpyArray)
        return self._stored.chunk, self._stored.cell

    def _load_coords(self, full: Sequence[int]) -> xr.Dataset:
        if self._stored.mapped:
            return xr.Dataset()
        assert not isinstance(self._stored, NpyArray)
        sizes = dict(zip(self._layout.dims, full, strict=True))
        if self._layout.stored_row_dim is not None:
            sizes[self._layout.stored_row_dim] = self.n
        return read_coords(self._stored.entry, sizes)

    def _select(
        self, config: SourceConfig, full: Sequence[int], coords: xr.Dataset
    ) -> tuple[Axis, ...]:
        layout, names = self._layout, self._stored.names
        matrix = [names[a] or f"dim_{a}" for a in (layout.row, layout.column)]
        labels = {d: coords[d].to_numpy() for d in layout.dims if d in coords.variables}
        found = resolve(config.isel or {}, config.sel or {}, layout.dims, full, matrix, labels)
        _, cell = self._grids()
        return tuple(
            Axis(dim, index, cell[a])
            for dim, index, a in zip(layout.dims, found, layout.axes, strict=True)
        )

    def _survey(self, coords: xr.Dataset) -> Bools | None:
        """Which cells of the stored batch grid touch an absent chunk; None for none of them."""
        stored: Stored = self._stored
        if stored.mapped:
            return None
        assert not isinstance(stored, NpyArray)
        stored.take_inventory()
        if self._policy == "fill" or 0 in self.shape:
            return None
        touched = [np.arange(-(-n // c)) for n, c in zip(stored.shape, stored.cell, strict=True)]
        for axis, ax in zip(self._layout.axes, self._axes, strict=True):
            touched[axis] = np.unique(ax.runs[1])
        absent = stored.find_absent(touched)
        if absent is None:
            return None
        if self._policy == "error":
            grid = tuple(absent.shape[a] for a in self._layout.axes)
            wanted = find_wanted(self._axes, grid, self._mask)
            refuse_absent(stored, self._layout, absent, wanted, coords)
        # The batch dimensions keep their stored order when the matrix ones are reduced away.
        return np.asarray(absent.any(axis=(self._layout.row, self._layout.column)))

    # Reading

    def todo(self, block: Block) -> Bools | None:
        """Which matrices of a block to solve, by `source.mask`; None for all.

        Returns
        -------
        array of bool of the block's shape, or None
        """
        if self._mask is None:
            return None
        return self._mask.read(self._axes, self._all_slices(block.slices)).reshape(block.shape)

    def _all_slices(self, slices: Sequence[slice]) -> list[slice]:
        """Slices for all batch dimensions, from those of the ones that are kept."""
        rest = iter(slices)
        return [slice(0, 1) if ax.dropped else next(rest) for ax in self._axes]

    def read(self, block: Block, todo: Bools | None = None) -> tuple[npt.NDArray[Any], Bools]:
        """Read the matrices of a block; every stored chunk is decoded at most once.

        Parameters
        ----------
        block : Block
        todo : array of bool, optional
            Of the block's shape; chunks of which no matrix is wanted are not read, and
            hold the fill value.

        Returns
        -------
        values : array of `dtype`, block.shape + (n, n)
            The row dimension is the last but one. May be a transposed view.
        missing : array of bool, block.shape
            With `source.missing=flag`: matrices of which an element lies in an absent chunk
            (the whole matrix then holds the fill value), or is a value that CF attributes
            declare missing (NaN). Under `error` and `fill` all false: there an element that
            CF attributes declare missing is NaN, which the solver reports as not finite.

        Raises
        ------
        ReadError
            A chunk is damaged; it is named with the block.
        StorageLost
            The store is gone.
        """
        spans = [ax.span(*ab) for ax, ab in zip(self._kept, _ends(block), strict=True)]
        edges = [e for e, _ in spans]
        absent = self._find_absent([cells for _, cells in spans])
        wanted = ~absent
        if todo is not None and block.size:
            wanted &= gather_runs(todo, edges)
        raw = self._gather(block, edges, wanted, [cells for _, cells in spans])
        values, gaps = self._packing.unpack(raw)
        missing = spread_runs(absent, edges)
        if gaps is not None and self._policy == "flag":
            missing = missing | gaps.any(axis=(-2, -1))
        return values, missing if todo is None else missing & todo

    def _find_absent(self, cells: Sequence[npt.NDArray[np.int64]]) -> Bools:
        """Flags of the runs with these cells along the kept dimensions."""
        shape = tuple(len(c) for c in cells)
        if self._absent is None:
            return np.zeros(shape, dtype=bool)
        rest = iter(cells)
        picks = [ax.runs[1] if ax.dropped else next(rest) for ax in self._axes]
        found: Bools = self._absent[np.ix_(*picks)].reshape(shape) if picks else self._absent
        return found

    def _gather(
        self,
        block: Block,
        edges: Sequence[npt.NDArray[np.int64]],
        wanted: Bools,
        cells: Sequence[npt.NDArray[np.int64]],
    ) -> npt.NDArray[Any]:
        # A chunk that comes up in two runs would be decoded twice in two rectangles.
        twice = any(np.unique(c).size < len(c) for c in cells)
        if wanted.all() or (twice and wanted.any()):
            return self._fetch(block, block.slices)
        shape = (*block.shape, self.n, self.n)
        values = np.full(shape, self._stored.fill, dtype=self._stored.dtype)
        for rectangle in find_rectangles(wanted):
            place = [slice(e[r.start], e[r.stop]) for e, r in zip(edges, rectangle, strict=True)]
            corner = zip(place, block.start, strict=True)
            values[tuple(place)] = self._fetch(
                block, [slice(p.start + a, p.stop + a) for p, a in corner]
            )
        return values

    def _fetch(self, block: Block, slices: Sequence[slice]) -> npt.NDArray[Any]:
        """Stored values at a rectangle of the selection, matrix dimensions last."""
        layout = self._layout
        positions: list[Any] = [range(self.n)] * len(self._stored.shape)
        for axis, ax, s in zip(layout.axes, self._axes, self._all_slices(slices), strict=True):
            positions[axis] = ax.positions[s]
        try:
            raw = self._stored.read(positions)
        except ReadError as error:
            place = describe_region(self.dims, block.slices, self.coords)
            raise ReadError(f"block {block.index} ({place}): {error}") from error
        turned = raw.transpose(*layout.axes, layout.row, layout.column)
        return turned[tuple(0 if ax.dropped else slice(None) for ax in self._axes)]

    # Identity

    def identity(self) -> dict[str, Any]:
        """What makes this input this input: JSON-able, the same wherever the store lies.

        Metadata, selection, mask (its content) and the names and sizes of the chunk files;
        no path, no time. The chunks' content is not read: a store rewritten in place with
        other numbers that take the same space counts as the same input.
        """
        return {
            **self._stored.identify(),
            "matrix_axes": [self._layout.row, self._layout.column],
            "selection": {ax.dim: ax.identify() for ax in self._axes},
            # where nothing is missing the policy changes nothing
            "missing": self._policy if self._absent is not None or self._packing.fills else None,
            "mask": self._mask.identify(self._axes) if self._mask else None,
        }


def _ends(block: Block) -> list[tuple[int, int]]:
    return list(zip(block.start, block.stop, strict=True))


def _choose_attrs(stored: dict[str, Any], units: str | None) -> dict[str, Any]:
    """The attributes that go with the result; the store's units win over the config's."""
    attrs = {k: v for k, v in stored.items() if k not in APPLIED}
    if units is not None:
        if attrs.get("units", units) != units:
            log.warning(
                "source.units=%s is ignored: the variable states its units, %r",
                units,
                attrs["units"],
            )
        attrs.setdefault("units", units)
    return attrs
