"""Peak memory of a run against the size of its store: it must not follow."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import zarr

MB = 10**6
INTERVAL = 0.05


def make_store(path: Path, size: int, n: int = 16) -> int:
    """Write `size` bytes of random symmetric float64 matrices, 8 MB a chunk; return how many."""
    chunk = 8 * MB // (8 * n * n)
    count = size // (8 * n * n)
    array = zarr.create_array(
        path,
        name="A",
        shape=(count, n, n),
        chunks=(chunk, n, n),
        dtype="float64",
        compressors=None,
        dimension_names=("sample", "row", "column"),
    )
    rng = np.random.default_rng(0)
    for start in range(0, count, chunk):
        part = rng.standard_normal((min(chunk, count - start), n, n))
        array[start : start + len(part)] = part + part.swapaxes(-1, -2)
    return count


def measure_pss(process: psutil.Process) -> int:
    """Sum the proportional set sizes of a process and all that it started, in bytes.

    Proportional, because libraries shared by the workers would count once for each otherwise.
    """
    total = 0
    family = [process]
    with suppress(psutil.Error):
        family += process.children(recursive=True)
    for member in family:
        with suppress(OSError, psutil.Error):
            lines = Path(f"/proc/{member.pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def run_measured(command: Sequence[str], folder: Path) -> tuple[int, float]:
    """Run a command to its end; return its family's peak PSS in bytes and its wall time in s."""
    begun = time.monotonic()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    peak, done = [0], threading.Event()

    def watch() -> None:
        process = psutil.Process(child.pid)
        while not done.wait(INTERVAL):
            peak[0] = max(peak[0], measure_pss(process))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = child.wait()
    done.set()
    watcher.join()
    if code:
        raise SystemExit(f"{' '.join(command)} ended with code {code}")
    return peak[0], time.monotonic() - begun


def bench_memory(sizes: Sequence[int], workers: int, block: str) -> list[dict[str, float]]:
    """Run the same job on stores of several sizes: the peak must not follow the size."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            count = make_store(folder / "in.zarr", size)
            command = [
                *(sys.executable, "-m", "pipeline", "run", "source.path=in.zarr"),
                *("solve.vectors=true", "cluster=local", f"cluster.workers={workers}"),
                *(f"plan.block_bytes={block}", "sink.path=out.zarr"),
            ]
            peak, seconds = run_measured(command, folder)
        rows.append({"bytes": size, "matrices": count, "peak": peak, "seconds": seconds})
        print(f"{size / MB:.0f} MB: peak {peak / MB:.0f} MB, {seconds:.1f} s", file=sys.stderr)
    return rows


def print_memory(rows: Sequence[dict[str, float]]) -> None:
    """Print the table of docs/benchmarks.md."""
    first = rows[0]["peak"]
    print("| store | matrices 16x16 | peak summed PSS | relative to the first | wall time |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['bytes'] / MB:.0f} MB | {row['matrices']:,.0f} | {row['peak'] / MB:.0f} MB "
            f"| {row['peak'] / first - 1:+.1%} | {row['seconds']:.1f} s |"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 2000], metavar="MB")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block", default="16MiB", help="plan.block_bytes")
    parser.add_argument("--json", type=Path, help="write the figures there, too")


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    rows = bench_memory([s * MB for s in options.sizes], options.workers, options.block)
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print_memory(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
