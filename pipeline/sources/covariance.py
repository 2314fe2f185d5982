"""Covariances of windows of a (time, channel) variable: one matrix a window."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.errors import Misuse, ReadError
from pipeline.plan import Block
from pipeline.sources.computed import divide
from pipeline.sources.coordinates import read_coords
from pipeline.sources.listing import Entry, choose_entry, describe
from pipeline.sources.moments import Moments
from pipeline.sources.npy import NpyArray
from pipeline.sources.opening import list_store
from pipeline.sources.packing import APPLIED, plan_packing
from pipeline.sources.regions import describe_region
from pipeline.sources.selection import Axis, resolve
from pipeline.sources.windows import Windows, choose_dims
from pipeline.sources.zarr import ZarrArray

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

SLAB = 2**26
"""Bytes of samples that are read together, unless one window takes more."""


class Covariances:
    """Covariance matrices of windows; attributes and methods as of `source.Source`."""

    def __init__(self, config: SourceConfig) -> None:
        stored, self._entries = open_samples(config)
        self._stored = stored
        names = tuple(name or f"dim_{i}" for i, name in enumerate(stored.names))
        sample, channel = choose_dims(names, config.sample_dim, config.channel_dim, stored.where)
        self._packing = plan_packing(stored.where, stored.dtype, stored.attrs, stored.missing_value)
        coords = self._read_coords(dict(zip(names, stored.shape, strict=True)))
        self._axes = self._select(config, names, coords)
        coords = coords.isel({a.dim: a.indexer for a in self._axes if a.dim in coords.dims})
        by_name = {axis.dim: axis for axis in self._axes}
        self._sample, self._channel = by_name[sample], by_name[channel]
        for axis in (self._sample, self._channel):
            if axis.dropped:
                raise Misuse(
                    f"source.isel and source.sel: one position of {axis.dim!r} is no set of "
                    f"samples or channels; give a list or a range"
                )
        self._others = tuple(
            a for a in self._axes if a.dim not in (sample, channel) and not a.dropped
        )
        self._windows = Windows.lay(len(self._sample.positions), config.window, config.step)
        self._moments = Moments(config.demean, config.ddof, str(config.nan), config.correlation)
        self.n, self.row_dim = len(self._channel.positions), channel
        if not self.n:
            raise Misuse(f"{stored.where}: no channel is left along {channel!r}")
        self.name = stored.name.rpartition("/")[2]
        kind = self._packing.dtype.kind
        self.dtype = self.stored_dtype = np.dtype(np.complex128 if kind == "c" else np.float64)
        self._weights = weigh_channels(config.feature_weights, coords, channel, self.n)
        self.attrs = describe_matrix(stored.attrs, config)
        self.dims = (*(a.dim for a in self._others), *self._windows.dims)
        self.shape = (*(len(a.positions) for a in self._others), *self._windows.shape)
        self.coords = self._label(coords, sample)
        self.chunks, self.chunk_bytes = self._cut()
        self._check_absent(str(config.missing))

    # Opening

    def _read_coords(self, sizes: dict[str, int]) -> xr.Dataset:
        if isinstance(self._stored, NpyArray):
            return xr.Dataset()
        return read_coords(self._stored.entry, sizes)

    def _select(
        self, config: SourceConfig, names: Sequence[str], coords: xr.Dataset
    ) -> tuple[Axis, ...]:
        labels = {d: coords[d].to_numpy() for d in names if d in coords.variables}
        found = resolve(config.isel, config.sel, names, self._stored.shape, (), labels)
        return tuple(Axis(d, index, 1) for d, index in zip(names, found, strict=True))

    def _label(self, coords: xr.Dataset, sample: str) -> xr.Dataset:
        """Keep what labels batch dimensions and rows, and say where each window lies."""
        kept = coords.drop_vars([str(n) for n, c in coords.coords.items() if sample in c.dims])
        if sample not in coords.variables or not self._windows.dims:
            return kept
        times = coords[sample].to_numpy()
        first = self._windows.starts
        about = coords[sample].attrs
        ends = {"first": first, "last": first + self._windows.length - 1}
        return kept.assign_coords(
            {f"{sample}_{k}": (self._windows.dims, times[v], about) for k, v in ends.items()}
        )

    def _cut(self) -> tuple[tuple[tuple[int, ...], ...], int]:
        """Pieces of windows that begin in one stored chunk of samples."""
        chunk = self._chunk()
        along = chunk[[a.dim for a in self._axes].index(self._sample.dim)]
        piece = max(1, along // self._windows.step)
        chunks = [divide(len(a.positions), 1) for a in self._others]
        chunks += [divide(size, piece) for size in self._windows.shape]
        slab = max(SLAB, self._windows.length * self.n * self.dtype.itemsize)
        return tuple(chunks), prod(chunk) * self._stored.dtype.itemsize + slab

    def _chunk(self) -> tuple[int, ...]:
        if isinstance(self._stored, NpyArray):
            return self._stored.cut(range(len(self._stored.shape)))
        return self._stored.chunk

    def _check_absent(self, policy: str) -> None:
        stored = self._stored
        if isinstance(stored, NpyArray):
            return
        stored.take_inventory()
        grid = zip(stored.shape, stored.cell, self._axes, strict=True)
        touched = [np.unique(np.asarray(axis.positions) // cell) for _, cell, axis in grid]
        absent = stored.find_absent(touched)
        found = absent is not None and absent[np.ix_(*touched)].any()
        if found and policy != "fill":
            raise Misuse(
                f"source.missing={policy}: some chunks of {stored.where} are absent. Copy or "
                f"compute them again; or, with source.missing=fill, take them as the fill value, "
                f"{stored.fill}, and choose by source.nan what becomes of windows with NaN"
            )

    # Reading

    def todo(self, block: Block) -> None:
        """Which matrices of a block to solve: all."""

    def read(
        self, block: Block, todo: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Read the samples of a block, part by part, and compute its matrices.

        Returns
        -------
        values : array, block.shape + (n, n)
        missing : array of bool, block.shape
            Windows without a matrix: NaN under `source.nan=flag`, or too few samples.
        """
        values = np.zeros((*block.shape, self.n, self.n), self.dtype)
        missing = np.zeros(block.shape, bool)
        count = len(self._others)
        spans = self._windows.group(block.slices[count:], self._span())
        for other in np.ndindex(*block.shape[:count]):
            at = [a + i for a, i in zip(block.start, other, strict=False)]
            for first, last in spans:
                if (
                    todo is not None
                    and not todo[other][self._windows.within(first, last, block)].any()
                ):
                    continue
                samples = self._fetch(block, at, *self._windows.extent(first, last))
                self._fill(values[*other, ...], missing[*other, ...], samples, first, last, block)
        return values, missing if todo is None else missing & todo

    def _span(self) -> int:
        """Samples that are read together."""
        return max(1, SLAB // (self.n * self.dtype.itemsize))

    def _fill(
        self,
        values: NDArray[Any],
        missing: NDArray[np.bool_],
        samples: NDArray[Any],
        first: int,
        last: int,
        block: Block,
    ) -> None:
        """Compute the matrices of windows `first` to `last` from the samples they span."""
        begin = self._windows.extent(first, last)[0]
        for number in range(first, last):
            start, stop = self._windows.extent(number, number + 1)
            window = np.ascontiguousarray(samples[start - begin : stop - begin])
            place = self._windows.place(number, block)
            matrix = self._moments(window * self._weights)
            if matrix is None or np.isnan(matrix).all():
                missing[place], values[place] = True, np.nan
            else:
                values[place] = matrix

    def _fetch(self, block: Block, others: Sequence[int], start: int, stop: int) -> NDArray[Any]:
        """Samples `start` to `stop` of all channels, for one position of the other dimensions."""
        rest = iter(others)
        positions: list[Any] = []
        for axis in self._axes:
            if axis is self._sample:
                positions.append(axis.positions[start:stop])
            elif axis is self._channel or axis.dropped:
                positions.append(axis.positions)
            else:
                at = next(rest)
                positions.append(axis.positions[at : at + 1])
        try:
            raw = self._stored.read(positions)
        except ReadError as error:
            place = describe_region(self.dims, block.slices, self.coords)
            raise ReadError(f"block {block.index} ({place}): {error}") from error
        turned = raw.squeeze(
            tuple(
                i
                for i, a in enumerate(self._axes)
                if a is not self._sample and a is not self._channel
            )
        )
        if self._axes.index(self._sample) > self._axes.index(self._channel):
            turned = turned.T
        return self._packing.unpack(turned)[0].astype(self.dtype)

    def identity(self) -> dict[str, Any]:
        """What makes this input this input; see `Source.identity`."""
        moments = self._moments
        return {
            **self._stored.identify(),
            "format": f"covariance of {self._stored.identify()['format']}",
            "selection": {a.dim: a.identify() for a in self._axes},
            "dims": [self._sample.dim, self._channel.dim],
            "windows": self._windows.identify(),
            "moments": [moments.demean, moments.ddof, moments.nan, moments.correlation],
            "weights": hashlib.sha256(self._weights.tobytes()).hexdigest(),
        }


def open_samples(config: SourceConfig) -> tuple[ZarrArray | NpyArray, list[Entry]]:
    """Open the variable that holds the samples: the named one, or the only one that is no label."""
    place, entries = list_store(config.path, config.storage_options)
    if entries is None:
        assert isinstance(place, Path)
        return NpyArray(place), []
    if len(entries) == 1 and entries[0].folder == place:
        return ZarrArray(entries[0]), entries
    if config.variable is not None:
        return ZarrArray(choose_entry(entries, str(place), config.variable, None)), entries
    wide = [e for e in entries if len(e.shape) > 1]
    if len(wide) != 1:
        raise Misuse(
            f"{place} holds {len(wide)} arrays of two or more dimensions; name the one with the "
            f"samples by source.variable. What is there:\n{describe(entries)}"
        )
    return ZarrArray(wide[0]), entries


def weigh_channels(
    text: str | None, coords: xr.Dataset, channel: str, n: int
) -> NDArray[np.float64]:
    """Read what each channel is multiplied by: a coordinate, or `sqrt_cos(LATITUDE)` of one."""
    if text is None:
        return np.ones(n)
    match = re.fullmatch(r"sqrt_cos\((.+)\)", text.strip())
    name = match[1] if match else text
    if name not in coords.variables or coords[name].dims != (channel,):
        there = [str(k) for k, v in coords.variables.items() if v.dims == (channel,)]
        raise Misuse(
            f"source.feature_weights={text}: {name!r} is no coordinate along {channel!r}; there: "
            f"{', '.join(there) or 'none'}. Expected one of them, or sqrt_cos(NAME) of a latitude"
        )
    values = np.asarray(coords[name].to_numpy(), np.float64)
    if match:
        values = np.sqrt(np.maximum(np.cos(np.deg2rad(values)), 0.0))  # -1e-17 at a pole
    if not np.isfinite(values).all():
        raise Misuse(f"source.feature_weights={text}: some weights are not finite")
    return values


def describe_matrix(stored: dict[str, Any], config: SourceConfig) -> dict[str, Any]:
    """Attributes of the covariances; units are squared."""
    units = str(stored.get("units") or config.units or "")
    kept = {k: v for k, v in stored.items() if k not in (*APPLIED, "standard_name", "units")}
    what = "correlation" if config.correlation else "covariance"
    kept["long_name"] = f"{what} of {stored.get('long_name') or 'the samples'}"
    if config.correlation or units == "1":
        return kept | {"units": "1"}
    simple = re.fullmatch(r"[A-Za-zµ°]+", units)
    return kept | ({"units": f"{units}^2" if simple else f"({units})^2"} if units else {})
