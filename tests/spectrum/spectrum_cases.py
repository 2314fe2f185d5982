"""A stack in memory, cut into blocks, as the spectrum stage sees one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pipeline.plan import Block
from pipeline.schema.spectrum import SpectrumConfig
from pipeline.stages.spectrum import Stack, compute_spectrum, find_weights, slice_weights

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, eq=False)
class Memory:
    """Eigenvalues in memory; `read` is what the pipeline does from the store."""

    values: Any
    status: Any
    stack: Stack
    weights: xr.DataArray | None = None

    def __call__(self, block: Block) -> tuple[Any, Any, Any]:
        weights = self.weights
        share = None if weights is None else slice_weights(weights, self.stack.dims, block)
        return self.values[block.slices], self.status[block.slices], share


def cut(shape: Sequence[int], *sizes: int) -> list[Block]:
    """Blocks of the given sizes along each dimension."""
    starts = product(*(range(0, n, size) for n, size in zip(shape, sizes, strict=True)))
    return [
        Block(i, start, tuple(map(min, (a + s for a, s in zip(start, sizes, strict=True)), shape)))
        for i, start in enumerate(starts)
    ]


def map_serial(fn: Callable[[Block], Any], blocks: Sequence[Block]) -> Iterator[tuple[Block, Any]]:
    """The blocks from last to first, each as another process would do it."""
    for block in reversed(blocks):
        yield block, pickle.loads(pickle.dumps(fn))(block)


def compute(
    values: Any,
    *sizes: int,
    status: Any = None,
    coords: dict[str, Any] | None = None,
    bands: Any = None,
    n: int | None = None,
    units: str | None = "eV",
    **config: Any,
) -> xr.Dataset:
    """The spectrum of `values`, cut into blocks of `sizes` (default: whole)."""
    shape, m = values.shape[:-1], values.shape[-1]
    labels = xr.Dataset(coords=coords or {})
    index = np.arange(m) if bands is None else np.asarray(bands)
    dims = tuple(f"k{i + 1}" for i in range(len(shape)))
    stack = Stack(dims, shape, index, n or m, labels, units)
    checked = SpectrumConfig(**config)
    memory = Memory(
        values,
        np.zeros(shape, np.uint8) if status is None else status,
        stack,
        find_weights(labels, checked.weights, dims),
    )
    blocks = cut(shape, *(sizes or map(max, shape, (1,) * len(shape))))
    return compute_spectrum(memory, blocks, map_serial, stack, checked)


def read_example(name: str) -> xr.Dataset:
    """One of the committed stores."""
    return xr.open_zarr(ROOT / f"data/{name}.zarr", chunks=None).load()
