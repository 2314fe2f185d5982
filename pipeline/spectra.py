"""The group `spectrum/` of an output: when it is due, and how it is made from what is stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xarray as xr
import zarr
from numpy.typing import NDArray

from pipeline.cluster import Crew, Lost
from pipeline.config import Config, SpectrumConfig
from pipeline.errors import Misuse
from pipeline.ledger import State
from pipeline.output import Output
from pipeline.plan import Block
from pipeline.provenance import digest, to_json
from pipeline.signals import StopSignal
from pipeline.sink import read_block, replace_group
from pipeline.stages.spectrum import Stack, check_request, compute_spectrum, slice_weights

log = logging.getLogger("eigenstream")
GROUP = "spectrum"


@dataclass(frozen=True)
class StoredValues:
    """Reads a block's stored eigenvalues and status, and cuts out its weights. Picklable."""

    path: str
    values: str
    status: str
    dims: tuple[str, ...]
    weights: xr.DataArray | None

    def __call__(self, block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        weights = self.weights
        part = None if weights is None else slice_weights(weights, self.dims, block)
        values, status = (read_block(self.path, n, block) for n in (self.values, self.status))
        return values, status, part


def identify_spectrum(output: Output, config: SpectrumConfig) -> str:
    """Digest what a spectrum depends on: its config, the solve, and which matrices are done."""
    plain = {k: getattr(v, "value", v) for k, v in asdict(config).items()}
    columns = output.ledger.columns
    done = [columns["state"].tolist(), columns["matrices"].tolist()]
    return digest([to_json(plain), output.stored["identity"], done])


def spectrum_is_due(output: Output, config: Config) -> bool:
    """Whether a spectrum is asked for that the output does not hold yet."""
    if config.spectrum.method is None:
        return False
    stored = read_group_attribute(output.path, "identity")
    return bool(stored != identify_spectrum(output, config.spectrum))


def read_group_attribute(path: Path, name: str) -> Any:
    """Read an attribute of the stored spectrum; None where there is none."""
    if not (path / GROUP / "zarr.json").is_file():
        return None
    return zarr.open_group(path, path=GROUP, mode="r", zarr_format=3).attrs.get(name)


def describe_stored(output: Output) -> Stack:
    """Describe the stored eigenvalues to the spectrum stage."""
    if "eigenvalues" not in output.names:
        raise Misuse(
            f"{output.path} holds no eigenvalues (sink.variables left them out), and a spectrum "
            f"is made of them; run again with sink.variables=[eigenvalues] and another sink.path"
        )
    name = output.names["eigenvalues"]
    with xr.open_zarr(output.path, chunks=None) as stored:
        values, coords = stored[name], stored.drop_vars(list(stored.data_vars)).load()
    pair_dim = str(values.dims[-1])
    return Stack(
        dims=output.dims,
        shape=output.shape,
        bands=coords[pair_dim].to_numpy().astype("int64"),
        n=int(output.stored["identity"]["solve"]["n"]),
        coords=coords,
        units=values.attrs.get("units"),
        pair_dim=pair_dim,
    )


def update_spectrum(output: Output, config: Config, crew: Crew, stop: StopSignal) -> bool:
    """Compute and store the spectrum if it is due; says whether it was."""
    if stop.event.is_set() or not spectrum_is_due(output, config):
        return False
    spectrum = config.spectrum
    stack = describe_stored(output)
    read = StoredValues(
        str(output.path),
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
    replace_group(output.path, GROUP, result)
    log.info("%s", summarise(result))
    return True


def through(
    crew: Crew, stop: StopSignal, path: Path
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
    text = f"density of states of {result.attrs['matrices_used']} matrices"
    if "gap" not in result:
        return text
    figures = ", ".join(
        f"{name.replace('_', ' ')} {float(result[name]):.4f} {units}".rstrip()
        for name in ("valence_max", "conduction_min", "gap", "direct_gap", "fermi_level")
    )
    return f"{text}: {figures}"
