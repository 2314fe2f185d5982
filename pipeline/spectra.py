"""The group `spectrum/` of an output: when it is due, and how it is made from what is stored."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from pipeline.cluster import Crew, Lost
from pipeline.columns import State
from pipeline.config import Config, from_plain, to_plain
from pipeline.errors import Misuse
from pipeline.layout import read_units
from pipeline.output import Output
from pipeline.places import Place, pick
from pipeline.plan import Block
from pipeline.provenance import digest, to_json
from pipeline.schema.spectrum import SpectrumConfig
from pipeline.signals import StopSignal
from pipeline.sink import read_block, replace_group
from pipeline.site import read_listed
from pipeline.stages.spectrum import Stack, check_request, compute_spectrum, slice_weights

log = logging.getLogger("eigenstream")
GROUP = "spectrum"


@dataclass(frozen=True)
class StoredValues:
    """Reads a block's stored eigenvalues and status, and cuts out its weights. Picklable."""

    path: Place
    values: str
    status: str
    dims: tuple[str, ...]
    weights: xr.DataArray | None

    def __call__(self, block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        weights = self.weights
        part = None if weights is None else slice_weights(weights, self.dims, block)
        values, status = (read_block(self.path, n, block) for n in (self.values, self.status))
        return values, status, part


def choose_spectrum(output: Output, config: Config) -> SpectrumConfig | None:
    """Choose the spectrum that an output should hold: what is asked for, else what it has."""
    if config.spectrum.method is not None:
        return config.spectrum
    stored = read_attributes(output.path).get("config")
    return from_plain({GROUP: stored}).spectrum if stored else None


def identify_spectrum(output: Output, config: SpectrumConfig) -> str:
    """Digest what a spectrum depends on: its config, the solve, and which matrices are done."""
    plain = to_plain(Config(spectrum=config))[GROUP]
    columns = output.ledger.columns
    done = [columns["state"].tolist(), columns["matrices"].tolist()]
    return digest([to_json(plain), output.stored["identity"], done])


def spectrum_is_due(output: Output, config: Config) -> bool:
    """Whether the output's spectrum is not, or no longer, what it should be."""
    wanted = choose_spectrum(output, config)
    if wanted is None:
        return False
    return bool(read_attributes(output.path).get("identity") != identify_spectrum(output, wanted))


def read_attributes(path: Place) -> dict[str, Any]:
    """Read the attributes of the stored spectrum as readers of the output see them: from the
    root's metadata, which name a group only when all of it is there."""
    return dict(read_listed(path).get(GROUP, {}).get("attributes", {}))


def describe_stored(output: Output) -> Stack:
    """Describe the stored eigenvalues to the spectrum stage."""
    if "eigenvalues" not in output.names:
        raise Misuse(
            f"{output.path} holds no eigenvalues (sink.variables left them out), and a spectrum "
            f"is made of them; run again with sink.variables=[eigenvalues] and another sink.path"
        )
    name = output.names["eigenvalues"]
    with xr.open_zarr(pick(output.path), chunks=None) as stored:
        values, coords = stored[name], stored.drop_vars(list(stored.data_vars)).load()
    pair_dim = str(values.dims[-1])
    return Stack(
        dims=output.dims,
        shape=output.shape,
        bands=coords[pair_dim].to_numpy().astype("int64"),
        n=int(output.stored["identity"]["solve"]["n"]),
        coords=coords,
        units=read_units(values.attrs),
        pair_dim=pair_dim,
    )


def update_spectrum(output: Output, config: Config, crew: Crew, stop: StopSignal) -> bool:
    """Compute and store the spectrum if it is due; says whether it was."""
    if stop.event.is_set() or not spectrum_is_due(output, config):
        return False
    spectrum = choose_spectrum(output, config)
    assert spectrum is not None  # else it were not due
    stack = describe_stored(output)
    read = StoredValues(
        output.path,
        output.names["eigenvalues"],
        output.names["status"],
        output.dims,
        check_request(stack, spectrum),
    )
    state = output.ledger.columns["state"]
    blocks = [block for block in output.ledger.blocks if state[block.index] == State.done]
    identity = identify_spectrum(output, spectrum)
    try:
        result = compute_spectrum(read, blocks, through(crew, stop, output.path), stack, spectrum)
    except Misuse as error:  # some of it can only be known from the values
        raise Misuse(
            f"{error}. The solved values are kept: `analyse {output.path}` with other settings "
            f"makes the spectrum from them"
        ) from error
    result.attrs["identity"] = identity
    result.attrs["config"] = to_plain(Config(spectrum=spectrum))[GROUP]
    replace_group(output.path, GROUP, result)
    log.info("%s", summarise(result))
    return True


def through(
    crew: Crew, stop: StopSignal, path: Place
) -> Callable[[Callable[[Block], Any], Sequence[Block]], Iterator[tuple[Block, Any]]]:
    """Make a crew's `map_blocks` one that returns results only: here a lost block is an error."""

    def map_blocks(
        fn: Callable[[Block], Any], blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Any]]:
        for outcome in crew.map_blocks(fn, blocks, stop.event):
            if isinstance(outcome, Lost):
                raise outcome.error
            yield outcome.task, outcome.value
        stop.check(path)

    return map_blocks


def summarise(result: xr.Dataset) -> str:
    """Say in one line what a spectrum shows."""
    units = result["broadening"].attrs.get("units", "")
    width = f"width {float(result['broadening']):g} {units}".rstrip()
    text = f"density of states of {result.attrs['matrices_used']} matrices, {width}"
    figures = []
    for name in ("valence_max", "conduction_min", "gap", "direct_gap", "fermi_level"):
        value = float(result[name]) if name in result else math.nan
        if math.isfinite(value):
            value += 0.0 if abs(value) >= 5e-5 else -value  # no -0.0000
            figures.append(f"{name.replace('_', ' ')} {value:.4f} {units}".rstrip())
    return f"{text}: {', '.join(figures)}" if figures else text
