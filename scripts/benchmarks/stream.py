"""A whole job against the script that a scientist writes today, on the same cores and store."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zarr

from benchmarks.timing import describe_machine, hermitian, make_table, publish

SCRIPT = Path(__file__).with_name("stream_script.py")
CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class Case:
    """A job, and what it must reach: the ratio of the streams, and of the whole processes."""

    count: int
    n: int
    dtype: str
    vectors: bool
    must: float = 0.0
    whole: float = 0.0

    @property
    def name(self) -> str:
        what = "with vectors" if self.vectors else "values only"
        return f"{self.count:,} {self.n}x{self.n}, {self.dtype}, {what}"


CASES = (
    Case(20_000_000, 3, "float64", True, 6, 4),
    Case(1_000_000, 16, "float64", True, 5, 3.5),
    Case(1_000_000, 16, "float64", False, 6, 4),
    Case(80_000, 64, "float64", True, 3, 2.7),
    Case(200_000, 20, "complex128", True, 4, 3),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the matrices, for a try")
    parser.add_argument("--sizes", type=int, nargs="+", help="only these n", metavar="N")
    parser.add_argument("--seconds", type=float, help="(taken for the sake of the other verbs)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to put stores; default: a temporary one")
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")


def run(options: argparse.Namespace) -> None:
    """Measure and write the table."""
    rows: list[list[object]] = []
    for case in CASES:
        if options.sizes and case.n not in options.sizes:
            continue
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            rows.append(measure(case, Path(name), options))
        print(*rows[-1], sep=" | ", file=sys.stderr)
    head = [
        *("job", "ours, stream, s", "script, stream, s", "ratio", "must"),
        *("ours, whole, s", "script, whole, s", "ratio", "must", "share of the bound"),
    ]
    text = describe_machine() + f"; {options.workers} workers, medians of {options.rounds} rounds."
    if options.scale != 1:
        text += f" {options.scale:g} of the matrices."
    publish("stream", text + "\n\n" + make_table(head, rows), not options.dry)


def measure(case: Case, folder: Path, options: argparse.Namespace) -> list[object]:
    """Both contenders in turns, and one worker alone for the bound."""
    count = max(64, int(case.count * options.scale))
    make_store(folder / "in.zarr", count, case.n, case.dtype)
    mine, theirs = [], []
    for _ in range(options.rounds):
        theirs.append(run_script(case, folder, options.workers))
        mine.append(run_ours(case, folder, options.workers)[:2])
    work = run_ours(case, folder, 1)[2]
    (a, x), (b, y) = (tuple(map(median, zip(*t, strict=True))) for t in (mine, theirs))
    bound = work / min(options.workers, os.cpu_count() or 1) / a
    return [
        *(case.name, a, b, mark(b / a, case.must), case.must),
        *(x, y, mark(y / x, case.whole), case.whole, f"{bound:.2f}"),
    ]


def mark(ratio: float, must: float) -> str:
    """Show a ratio, in bold if it is not enough."""
    return f"{ratio:.1f}" if ratio >= must else f"**{ratio:.1f}**"


def make_store(path: Path, count: int, n: int, dtype: str) -> None:
    """Write random Hermitian matrices as xarray would by default, 8 MiB a chunk."""
    each = n * n * np.dtype(dtype).itemsize
    chunk = max(1, min(count, CHUNK_BYTES // each))
    group = zarr.open_group(path, mode="w", zarr_format=3)
    array = group.create_array(
        "A",
        shape=(count, n, n),
        chunks=(chunk, n, n),
        dtype=dtype,
        dimension_names=("sample", "row", "column"),
    )
    rng = np.random.default_rng(0)
    for start in range(0, count, chunk):
        array[start : start + chunk] = hermitian(rng, min(chunk, count - start), n, dtype)


def run_script(case: Case, folder: Path, workers: int) -> tuple[float, float]:
    """Seconds of the stream, and of the whole process."""
    vectors = str(case.vectors).lower()
    text, whole = run_timed(
        [SCRIPT, folder / "in.zarr", folder / "theirs.zarr", vectors, workers], folder
    )
    return float(text), whole


def run_ours(case: Case, folder: Path, workers: int) -> tuple[float, float, float]:
    """Seconds of the stream and of the whole process, and of work summed over the blocks."""
    out = folder / "ours.zarr"
    shutil.rmtree(out, ignore_errors=True)
    arguments = [
        *("-m", "pipeline", "run", f"source.path={folder / 'in.zarr'}", f"sink.path={out}"),
        *(f"solve.vectors={str(case.vectors).lower()}", f"cluster.workers={workers}"),
        *("solve.hermitian=lower", "sink.variables=[eigenvalues,eigenvectors,residual]"),
    ]
    if not case.vectors:
        arguments[-1] = "sink.variables=[eigenvalues,residual]"
    _, whole = run_timed(arguments, folder)
    ledger: Any = zarr.open_group(out / "run", mode="r")
    work, finished = ledger["seconds"][...].sum(-1), ledger["finished"][...]
    return float(finished.max() - (finished - work).min()), whole, float(work.sum())


def run_timed(arguments: Sequence[object], folder: Path) -> tuple[str, float]:
    """Run Python to its end; what it printed, and the seconds it took."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{arguments} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout, seconds
