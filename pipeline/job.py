"""A job before it starts: everything looked at and checked, nothing written yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

import numpy as np
import xarray as xr

from pipeline.cluster import choose_crew
from pipeline.cluster.crew import IN_FLIGHT, Size
from pipeline.config import Config
from pipeline.errors import Misuse
from pipeline.layout import Layout, check_names, list_variables, read_units
from pipeline.plan import PROCESS_BYTES, TORCH_BYTES, Plan, Stack, plan_blocks
from pipeline.provenance import to_json
from pipeline.sources import open_source
from pipeline.stages import spectrum
from pipeline.stages.rounding import Rounding, design_rounding
from pipeline.stages.solve import Solver, design_solver


@dataclass(frozen=True)
class Setup:
    """What a run consists of.

    Attributes
    ----------
    config : Config
        The config, with absolute paths.
    source : Source
        The opened input.
    solver : Solver
        How a matrix is solved.
    rounding : Rounding
        What is stored in a coarser precision.
    size : Size
        The workers.
    layout : Layout
        What the output holds.
    names : dict
        For each array stored, its name in the contract and its name in the output.
    identity : dict
        `input` and `solve`: what must be equal for two launches to share an output.
    """

    config: Config
    source: Any
    solver: Solver
    rounding: Rounding
    size: Size
    layout: Layout
    names: dict[str, str]
    identity: dict[str, Any]

    @property
    def stack(self) -> Stack:
        """The stack as the planner sees it."""
        return describe_stack(self.source, self.solver, self.layout, self.size)

    def plan(self) -> Plan:
        """Cut the stack into blocks; raises Misuse where none would fit."""
        return plan_blocks(
            self.stack,
            workers=self.size.workers,
            memory=self.size.memory,
            block_bytes=self.config.plan.block_bytes or self._fill_shards(),
        )

    def _fill_shards(self) -> int | None:
        """Bytes of input whose largest result fills a shard of the size asked for, if any is."""
        wanted: int | None = self.config.sink.shard_bytes
        largest = max(variable.bytes_each for variable in self.layout.variables)
        return wanted and max(1, wanted // largest) * self.stack.matrix_bytes


def prepare(config: Config) -> Setup:
    """Open the input and check the whole config against it.

    Raises
    ------
    Misuse
        If anything asked for cannot be had; nothing has been written then.
    """
    source = open_source(config.source)
    total = prod(source.shape) * source.n**2 * source.dtype.itemsize
    cluster = config.cluster
    size = choose_crew(
        cluster.kind.value,
        workers=cluster.workers,
        threads=cluster.threads,
        memory=cluster.memory,
        total_bytes=total,
    )
    solver = design_solver(
        config.solve,
        n=source.n,
        dtype=source.dtype,
        stored=source.stored_dtype,
        threads=size.threads,
    )
    rounding = design_rounding(config.sink.dtype, solver)
    layout, names = design_layout(config, source, rounding)
    if config.spectrum.method is not None:
        spectrum.check_request(describe_values(layout, solver, source, config), config.spectrum)
    solve = {k: v for k, v in asdict(solver).items() if k not in ("threads", "device")}
    if rounding.dtypes:
        solve["stored"] = dict(rounding.dtypes)
    identity = to_json({"input": source.identity(), "solve": solve})
    return Setup(config, source, solver, rounding, size, layout, names, identity)


def describe_values(layout: Layout, solver: Solver, source: Any, config: Config) -> spectrum.Stack:
    """Describe the eigenvalues that a run will store to the spectrum stage."""
    return spectrum.Stack(
        dims=layout.dims,
        shape=layout.shape,
        bands=solver.band,
        n=source.n,
        coords=layout.coords,
        units=read_units(source.attrs),
        pair_dim=config.sink.pair_dim,
    )


def describe_stack(source: Any, solver: Solver, layout: Layout, size: Size) -> Stack:
    """Describe a stack to the planner; bytes are those of the wider of reading and solving.

    Workers that are threads share one process.
    """
    itemsize = max(
        source.dtype.itemsize, source.stored_dtype.itemsize, np.dtype(solver.dtype).itemsize
    )
    process = PROCESS_BYTES + (TORCH_BYTES if solver.driver != "lanes" else 0)
    return Stack(
        shape=source.shape,
        chunks=source.chunks,
        chunk_bytes=source.chunk_bytes,
        matrix_bytes=source.n**2 * itemsize,
        result_bytes=layout.bytes_each,
        process_bytes=process // (size.workers if size.kind == "threads" else 1),
        in_flight=1 if size.kind == "serial" else IN_FLIGHT,
    )


def design_layout(config: Config, source: Any, rounding: Rounding) -> tuple[Layout, dict[str, str]]:
    """Decide what the output holds, and under which names."""
    solver = rounding.solver
    pair_dim, rename = config.sink.pair_dim, dict(config.sink.rename)
    every = list_variables(
        n=source.n,
        pairs=solver.pairs,
        real=solver.real,
        dtype=np.dtype(solver.dtype),
        row_dim=rename.get(source.row_dim, source.row_dim),
        pair_dim=pair_dim,
        attrs=source.attrs,
        stored={name: np.dtype(dtype) for name, dtype in rounding.dtypes.items()},
        compressor=config.sink.compressor,
    )
    wanted = choose_variables(config, solver)
    names = {name: rename.get(name, name) for name in wanted}
    coords = label_pairs(source, solver, pair_dim, keep_rows="eigenvectors" in wanted)
    check_rename(rename, {*source.dims, source.row_dim, *map(str, coords.coords), *names})
    coords = coords.rename({k: v for k, v in rename.items() if k in {*coords.dims, *coords.coords}})
    layout = Layout(
        dims=tuple(rename.get(d, d) for d in source.dims),
        shape=source.shape,
        coords=coords,
        variables=tuple(replace(every[name], name=stored) for name, stored in names.items()),
    )
    check_names(layout, row_dim=rename.get(source.row_dim, source.row_dim), pair_dim=pair_dim)
    return layout, names


def choose_variables(config: Config, solver: Solver) -> list[str]:
    """Choose the arrays to store; the status is always among them, since nothing is trusted
    without it."""
    every = ["eigenvalues", "residual", "status", *(["eigenvectors"] if solver.vectors else [])]
    wanted = config.sink.variables or every
    return [name for name in every if name in (*wanted, "status")]


def label_pairs(source: Any, solver: Solver, pair_dim: str, *, keep_rows: bool) -> xr.Dataset:
    """Add the pair's coordinate to the input's; rows' labels stay only where vectors are stored."""
    coords: xr.Dataset = source.coords
    if not keep_rows:
        on_rows = [n for n, c in coords.coords.items() if source.row_dim in c.dims]
        coords = coords.drop_vars(on_rows)
    if pair_dim in coords.coords or pair_dim in source.dims:
        return coords  # refused by check_names, with the remedy
    attrs = {"long_name": "index of the pair in the full spectrum, ascending"}
    return coords.assign_coords({pair_dim: (pair_dim, solver.band, attrs)})


def check_rename(rename: Mapping[str, str], known: set[str]) -> None:
    """Refuse a rename of something that is not there, or to a name that something else has."""
    for name in rename:
        if name not in known:
            raise Misuse(
                f"sink.rename: no {name!r} to rename; the output has {', '.join(sorted(known))}"
            )
    new = [rename.get(name, name) for name in sorted(known)]
    twice = sorted({name for name in new if new.count(name) > 1})
    if twice:
        raise Misuse(f"sink.rename: {twice[0]!r} would be the name of two things")
