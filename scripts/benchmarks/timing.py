"""Contenders timed in turns, the machine described, and tables kept in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
DTYPES = ("float32", "float64", "complex64", "complex128")
THREADS = 2
Work = Callable[[], object]


def add_options(
    parser: argparse.ArgumentParser, sizes: Sequence[int], rounds: int, dtypes: Sequence[str] = ()
) -> None:
    """Declare the options that the benchmarks of a call share."""
    parser.add_argument("--sizes", type=int, nargs="+", default=list(sizes), metavar="N")
    if dtypes:
        parser.add_argument("--dtypes", nargs="+", default=list(dtypes), choices=dtypes)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=0.02, help="of work, roughly, a turn")
    parser.add_argument("--dry", action="store_true", help=f"leave docs/{PAGE.name} as it is")


def hermitian(rng: np.random.Generator, count: int, n: int, dtype: str) -> Any:
    """Random Hermitian matrices, (count, n, n)."""
    a = rng.standard_normal((count, n, n))
    if dtype.startswith("complex"):
        a = a + 1j * rng.standard_normal((count, n, n))
    return ((a + a.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def count_for(n: int, seconds: float) -> int:
    """How many matrices take us about `seconds` on one thread, within 64 MB."""
    each = 1.2e-8 * (1 + (n / 2) ** 2.5)
    return int(max(16, min(seconds / each, 64e6 / (16 * n * n))))


class Seat:
    """A process in which one contender waits for its turns, stopped between them.

    Threads of OpenBLAS, OpenMP and jax spin on after a call, and slow down whoever comes next (ours
    up to twice, on two cores, whatever the pause). Nothing spins in a stopped process.
    """

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("fork")  # `work` is a closure over a large stack
        self._asks, answers = context.Pipe()
        self._process = context.Process(target=serve, args=(answers, work), daemon=True)
        self._process.start()
        self._signal(signal.SIGSTOP)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def take_turn(self) -> float:
        """Seconds of one call, after another one to warm up."""
        self._signal(signal.SIGCONT)
        self._asks.send(None)
        while not self._asks.poll(1):
            if not self._process.is_alive():
                raise SystemExit(f"a contender ended with {self._process.exitcode}")
        seconds: float = self._asks.recv()
        self._signal(signal.SIGSTOP)
        return seconds

    def _signal(self, number: int) -> None:
        os.kill(self._process.pid or 0, number)


def serve(connection: Connection, work: Work) -> None:
    """Time `work` whenever asked."""
    while True:
        connection.recv()
        work()
        begun = time.perf_counter()
        work()
        connection.send(time.perf_counter() - begun)


def take_turns(
    contenders: Mapping[str, Work], rounds: int, pick: Callable[[list[float]], float] = median
) -> dict[str, float]:
    """Median seconds of each contender, each in a process of its own, one turn each a round.

    They are forked from here, so a contender that has threads must start them when it is called.
    """
    with ExitStack() as stack:
        seats = {name: stack.enter_context(Seat(work)) for name, work in contenders.items()}
        times = [{name: seat.take_turn() for name, seat in seats.items()} for _ in range(rounds)]
    return {name: pick([t[name] for t in times]) for name in contenders}


def describe_machine() -> str:
    """One line: processor, cores, versions, and which kernels numpy's BLAS chose."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text()
        found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
        cpu = found.group(1) if found else cpu
        cpu += " with AVX-512" if " avx512f" in text else " with AVX2" if " avx2" in text else ""
    versions = [f"{name} {version}" for name in ("numpy", "scipy", "torch", "jax")
                if (version := find_version(name))]  # fmt: skip
    load = f"load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    parts = [f"{cpu}, {os.cpu_count()} cores", f"Python {platform.python_version()}", *versions]
    return "; ".join([", ".join(parts), find_blas(), load])


def find_version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_blas() -> str:
    """What numpy's BLAS is and which kernel it picked, if threadpoolctl is there to tell."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "numpy's BLAS unknown (no threadpoolctl)"
    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    named = {f"{p['internal_api']} {p.get('version')} ({p.get('architecture')})" for p in pools}
    return "BLAS of numpy and scipy: " + ", ".join(sorted(named))


def make_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown; numbers get three figures."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(show(x) for x in row) + " |" for row in rows]
    return "\n".join(lines)


def show(x: object) -> str:
    """Three significant figures for a float, else as it is."""
    if not isinstance(x, float):
        return str(x)
    if x >= 1000:
        return f"{x:,.0f}"
    return f"{x:#.3g}".rstrip(".")


def publish(marker: str, text: str, write: bool) -> None:
    """Print a block, and put it between its markers in docs/benchmarks.md."""
    print(text)
    if not write:
        return
    page = PAGE.read_text(encoding="utf-8")
    opening, closing = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    before, _, rest = page.partition(opening)
    _, found, after = rest.partition(closing)
    if not found:
        raise SystemExit(f"{PAGE}: expected the markers {opening} and {closing}")
    PAGE.write_text(f"{before}{opening}\n{text}\n{closing}{after}", encoding="utf-8")
