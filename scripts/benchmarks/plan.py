"""What `plan` says a run will take, against what it takes."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.memory import measure_pss
from benchmarks.stream import Case, make_store
from benchmarks.timing import describe_machine, make_table, publish

CASES = (
    Case(8_000_000, 3, "float64", True),
    Case(600_000, 16, "float64", True),
    Case(600_000, 16, "float64", False),
    Case(40_000, 64, "float64", True),
    Case(150_000, 20, "complex128", True),
    Case(1_000, 200, "float64", True),
)
TIME, MEMORY = 0.30, 0.15
INTERVAL = 0.02
ASK = """
import json, sys
from pipeline.config import compose
from pipeline.job import prepare
from pipeline.verbs.plan import estimate_seconds, measure_sample
setup = prepare(compose(sys.argv[1:]))
plan = setup.plan()
print(json.dumps([estimate_seconds(setup, plan, measure_sample(setup, plan)), plan.memory]))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--scale", type=float, default=1.0, help="share of the matrices, for a try")
    parser.add_argument("--sizes", type=int, nargs="+", help="only these n", metavar="N")
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")


def run(options: argparse.Namespace) -> None:
    """Measure and write the table; an estimate that is too far off is in bold."""
    rows: list[list[object]] = []
    for case in CASES:
        if options.sizes and case.n not in options.sizes:
            continue
        with tempfile.TemporaryDirectory() as name:
            rows.append(measure(case, Path(name), options.scale))
        print(*rows[-1], sep=" | ", file=sys.stderr)
    head = ["job", "plan, s", "run, s", "off", "plan, MB a worker", "run, MB a worker", "off"]
    publish("plan", describe_machine() + ".\n\n" + make_table(head, rows), not options.dry)


def measure(case: Case, folder: Path, scale: float) -> list[object]:
    """Estimate and truth of one job."""
    count = max(64, int(case.count * scale))
    make_store(folder / "in.zarr", count, case.n, case.dtype)
    overrides = ["source.path=in.zarr", f"solve.vectors={str(case.vectors).lower()}"]
    asked = subprocess.run(
        [sys.executable, "-c", ASK, *overrides],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, memory = json.loads(asked.stdout)
    took, peak = watch_run([*overrides, "sink.path=out.zarr"], folder)
    shown = [show_error(seconds, took, TIME), show_error(memory, peak, MEMORY)]
    return [case.name, seconds, took, shown[0], memory / 1e6, peak / 1e6, shown[1]]


def show_error(estimate: float, truth: float, most: float) -> str:
    """How far an estimate is off."""
    error = estimate / truth - 1
    return f"{error:+.0%}" if abs(error) <= most else f"**{error:+.0%}**"


def watch_run(overrides: list[str], folder: Path) -> tuple[float, int]:
    """Wall time in seconds of a run, and the peak memory of a worker of it in bytes."""
    begun, peak = time.monotonic(), 0
    done = threading.Event()
    child = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "run", *overrides],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def watch() -> None:
        nonlocal peak
        while not done.wait(INTERVAL):
            peak = max([peak, *map(measure_pss, find_workers(child.pid))])

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = child.wait()
    took = time.monotonic() - begun
    done.set()
    watcher.join()
    if code:
        raise SystemExit(f"{overrides} ended with code {code}")
    return took, peak


def find_workers(pid: int) -> list[psutil.Process]:
    """The worker processes of a run, or itself where it has none."""
    try:
        parent = psutil.Process(pid)
        nurseries = [p for p in parent.children() if "forkserver" in " ".join(p.cmdline())]
        return [w for nursery in nurseries for w in nursery.children()] or [parent]
    except psutil.Error:
        return []
