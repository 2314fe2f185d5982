"""`plan`: what `run` would do, with a time estimated from a measured sample; writes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arguments import Arguments
from pipeline.config import compose
from pipeline.job import Setup, prepare
from pipeline.plan import Block, Plan
from pipeline.progress import format_bytes, format_seconds
from pipeline.verdict import start_status

SAMPLE_SECONDS = 0.5
START_SECONDS = {"serial": 1.0, "threads": 1.0, "local": 3.0}
"""From the command to the first block, and from the last one to the end (measured)."""
BLOCK_SECONDS = 1e-3
"""What a block costs beyond its work (`scripts/bench.py stream`)."""
WRITE_RATE = 1.5e9
"""Bytes that one worker writes in a second, into the memory that caches a disk (measured)."""


@dataclass(frozen=True)
class Sample:
    """Seconds of one worker for a matrix, measured on a few.

    `share` is the part of what is read that is to be solved at all.
    """

    matrices: int
    share: float
    read: float
    solve: float
    write: float


def estimate_seconds(setup: Setup, plan: Plan, sample: Sample) -> float:
    """Seconds from the command to its end.

    The model: a start, and for each worker an equal share of the blocks, each of which costs
    something beyond its work. Disks and networks slower than the sample are not in it.
    """
    matrices, limit = prod(setup.source.shape), setup.config.plan.limit
    read = matrices if limit is None else min(limit, matrices)
    work = read * (sample.read + sample.share * (sample.solve + sample.write))
    workers = max(1, min(setup.size.workers, plan.count))
    start = START_SECONDS[setup.size.kind]
    return start + float(work + BLOCK_SECONDS * plan.count) / workers


def main(arguments: Arguments) -> int:
    """Print the plan of a config; return the exit code."""
    setup = prepare(compose(arguments.overrides, arguments.config_dir))
    print(describe_plan(setup, setup.plan()))
    return 0


def describe_plan(setup: Setup, plan: Plan) -> str:
    """Describe a plan in lines of text."""
    source, size, layout = setup.source, setup.size, setup.layout
    matrices = prod(source.shape)
    stored = ", ".join(v.name for v in layout.variables)
    lines = [
        f"input     {source.name} {describe_shape(setup)} {source.stored_dtype}, "
        f"{format_bytes(matrices * setup.stack.matrix_bytes)}",
        f"solve     {setup.solver.pairs} of {source.n} pairs in {setup.solver.dtype}, "
        f"driver {setup.solver.driver} on {setup.solver.device}, check {setup.solver.check}",
        f"workers   {size.workers} ({size.kind}) x {size.threads} threads, "
        f"{format_bytes(plan.memory)} of {format_bytes(size.memory)} each",
        f"blocks    {plan.count} of {plan.block_shape} matrices"
        + (f", read {plan.read_shape} at a time" if plan.read_shape != plan.block_shape else ""),
        f"output    {stored}: {format_bytes(matrices * layout.bytes_each)} before compression, "
        f"about {plan.count * len(layout.variables) + len(layout.coords.coords) + 20} files",
    ]
    if plan.count:
        sample = measure_sample(setup, plan)
        seconds = estimate_seconds(setup, plan, sample)
        lines.append(
            f"time      about {format_seconds(seconds)} (measured on {sample.matrices} matrices: "
            f"read {1 / sample.read:,.0f}/s, solve {1 / sample.solve:,.0f}/s a worker)"
        )
    return "\n".join(lines)


def describe_shape(setup: Setup) -> str:
    """Describe the shape of a stack, for example `(k1: 12, k2: 12) of 10 x 10`."""
    source = setup.source
    dims = ", ".join(f"{d}: {s}" for d, s in zip(setup.layout.dims, source.shape, strict=True))
    return f"({dims}) of {source.n} x {source.n}"


def measure_sample(setup: Setup, plan: Plan) -> Sample:
    """Read the first stored chunk's worth of blocks and solve part of it, on one worker."""
    source, shape = setup.source, setup.source.shape
    stop = tuple(min(r, s) for r, s in zip(plan.read_shape, shape, strict=True))
    block = Block(0, (0,) * len(shape), stop)
    status = start_status(block, shape, None, source.todo(block))
    todo = status == 0
    begun = time.perf_counter()
    values, _ = source.read(block, todo)
    reading = time.perf_counter() - begun
    flat = (
        values[todo] if todo.any() else np.broadcast_to(np.eye(source.n), (1, source.n, source.n))
    )
    solve_part(setup, flat[:1])  # loads what the driver needs
    count, solving = 16, 0.0
    while solving < SAMPLE_SECONDS and count <= 4 * len(flat):
        part = flat[: min(count, len(flat))]
        solving, count = solve_part(setup, part), count * 4
    write = setup.layout.bytes_each / WRITE_RATE
    return Sample(len(part), todo.mean(), reading / block.size, solving / len(part), write)


def solve_part(setup: Setup, matrices: NDArray[Any]) -> float:
    """Seconds that some matrices take."""
    none = np.zeros(len(matrices), bool)
    begun = time.perf_counter()
    setup.solver.solve(matrices, none, none.astype(np.uint8))
    return time.perf_counter() - begun
