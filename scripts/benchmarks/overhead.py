"""What a run costs beside its work: start to result, a block, and what a second worker gives."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import zarr

from benchmarks.stream import Case, make_store, run_ours, run_timed
from benchmarks.timing import describe_machine, make_table, publish

DEMO = 6.0
BLOCKS, BLOCK = 10_000, 0.005
SPEED_UP = 1.8
CASES = (Case(1_000_000, 16, "float64", True), Case(80_000, 64, "float64", True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the matrices, for a try")
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")


def run(options: argparse.Namespace) -> None:
    """Measure and write the table."""
    rows = [measure_demo(options.rounds), measure_blocks(int(BLOCKS * options.scale))]
    rows += [measure_workers(case, options) for case in CASES]
    text = describe_machine() + f"; medians of {options.rounds} rounds.\n\n"
    publish("overhead", text + make_table(["what", "measured", "must"], rows), not options.dry)


def measure_demo(rounds: int) -> list[object]:
    """Seconds from the command to the result of the experiment `spectra`, files in memory."""
    taken = []
    for _ in range(rounds + 1):  # the first reads what it needs from the disk
        with tempfile.TemporaryDirectory() as name:
            command = ["-m", "pipeline", "run", "+experiment=spectra"]
            taken.append(run_timed(command, Path(name))[1])
    seconds = median(taken[1:])
    print(f"demo: {taken}", file=sys.stderr)
    return ["`run +experiment=spectra`, command to result, s", seconds, f"at most {DEMO:g}"]


def measure_blocks(blocks: int) -> list[object]:
    """Milliseconds a block of one 4x4 matrix, which take next to none to solve, two workers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zarr.create_array(
            folder / "in.zarr",
            name="A",
            shape=(blocks, 4, 4),
            chunks=(1, 4, 4),
            dtype="float64",
            fill_value=1.0,
            compressors=None,
            dimension_names=("sample", "row", "column"),
        )
        arguments = [
            *("-m", "pipeline", "run", "source.path=in.zarr", "sink.path=out.zarr"),
            *("cluster=local", "cluster.workers=2", "source.missing=fill", "plan.block_bytes=128"),
        ]
        run_timed(arguments, folder)
        ledger: Any = zarr.open_group(folder / "out.zarr" / "run", mode="r")
        work, finished = ledger["seconds"][...].sum(-1), ledger["finished"][...]
    if len(finished) != blocks:
        raise SystemExit(f"{len(finished)} blocks, expected {blocks}")
    wall = finished.max() - (finished - work).min()
    return [
        f"wall time a block, its work included, {blocks:,} blocks, 2 workers, ms",
        wall / blocks * 1e3,
        f"at most {BLOCK * 1e3:g}",
    ]


def measure_workers(case: Case, options: argparse.Namespace) -> list[object]:
    """How much faster the stream is with two workers than with one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = max(64, int(case.count * options.scale))
        make_store(folder / "in.zarr", count, case.n, case.dtype)
        taken: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(options.rounds):
            for workers, seconds in taken.items():
                seconds.append(run_ours(case, folder, workers)[0])
        shutil.rmtree(folder / "ours.zarr")
    print(f"{case.name}: {taken}", file=sys.stderr)
    ratio = median(taken[1]) / median(taken[2])
    return [f"stream, 2 workers over 1, {case.name}", ratio, f"at least {SPEED_UP:g}"]
