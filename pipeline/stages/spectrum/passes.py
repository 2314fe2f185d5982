"""The two passes over stored eigenvalues: one surveys them, the other counts them.

Between the passes the energies are chosen. Memory is bounded by one block and the grid.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.plan import Block
from pipeline.stages.spectrum.dataset import build_spectrum
from pipeline.stages.spectrum.dos import Counts, count_states
from pipeline.stages.spectrum.filling import check_electrons
from pipeline.stages.spectrum.grid import Grid, make_grid
from pipeline.stages.spectrum.stack import Stack
from pipeline.stages.spectrum.survey import Survey, empty_survey, survey
from pipeline.stages.spectrum.weights import choose_exponent, find_weights, weigh

if TYPE_CHECKING:
    from pipeline.schema.spectrum import SpectrumConfig

log = logging.getLogger("eigenstream")

Read = Callable[[Block], tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]
"""Reads a block's stored eigenvalues, status, and weights (None: all 1; see `slice_weights`)."""
MapBlocks = Callable[[Callable[[Block], Any], Sequence[Block]], Iterable[tuple[Block, Any]]]
"""Calls a picklable function on every block and yields (block, result) in any order."""


@dataclass(frozen=True)
class Load:
    """Reads a block for both passes: values ascending, weights in whole numbers."""

    read: Read
    descending: bool
    exponent: int

    def __call__(self, block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        values, status, weights = self.read(block)
        if self.descending:
            values = values[..., ::-1]
        return values, status, weigh(weights, block.shape, self.exponent)


@dataclass(frozen=True)
class SurveyBlock:
    """The first pass's work on a block."""

    load: Load
    shape: tuple[int, ...]

    def __call__(self, block: Block) -> Survey:
        return survey(*self.load(block), block, self.shape)


@dataclass(frozen=True)
class CountBlock:
    """The second pass's work on a block."""

    load: Load
    grid: Grid

    def __call__(self, block: Block) -> Counts:
        return count_states(*self.load(block), self.grid)


def check_request(stack: Stack, config: SpectrumConfig) -> xr.DataArray | None:
    """Check a `spectrum` config against a stack before work starts, and find its weights.

    Raises
    ------
    Misuse
        If the weights or the electrons do not fit the stack.
    """
    check_electrons(config, stack.bands, stack.n)
    return find_weights(stack.coords, config.weights, stack.dims)


def compute_spectrum(
    read: Read,
    blocks: Sequence[Block],
    map_blocks: MapBlocks,
    stack: Stack,
    config: SpectrumConfig,
) -> xr.Dataset:
    """Compute the density of states, band extents and filling from stored eigenvalues.

    Parameters
    ----------
    read : callable
        See `Read`; must be picklable where `map_blocks` works in other processes.
    blocks : sequence of Block
        Cover every matrix that counts, each once; no result depends on how.
    map_blocks : callable
        See `MapBlocks`.
    stack : Stack
    config : SpectrumConfig

    Returns
    -------
    xarray.Dataset
        See `build_spectrum`.

    Raises
    ------
    Misuse
        If the config does not fit the stack, or its energies do not fit the eigenvalues.
    """
    weights = check_request(stack, config)
    heaviest = 1.0 if weights is None or weights.size == 0 else float(weights.max())
    exponent = choose_exponent(math.prod(stack.shape), len(stack.bands), heaviest)
    load = Load(read, stack.descending, exponent)
    surveys = (part for _, part in map_blocks(SurveyBlock(load, stack.shape), blocks))
    found = reduce(Survey.merge, surveys, empty_survey(len(stack.bands)))
    if found.weight == 0:
        log.warning("no matrix with eigenvalues and weight: the density of states is zero")
    grid = make_grid(found, config)
    parts = (part for _, part in map_blocks(CountBlock(load, grid), blocks))
    counts = reduce(Counts.merge, parts, Counts(np.zeros(grid.bins, np.int64), 0))
    return build_spectrum(found, counts, grid, config, stack, exponent)
