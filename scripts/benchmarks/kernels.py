"""`kernels.eigh` with check=probe against the best of its peers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.timing import (
    THREADS,
    add_options,
    count_for,
    describe_machine,
    hermitian,
    make_table,
    publish,
    take_turns,
)

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
KINDS = (
    ("float64", True), ("float64", False), ("complex128", True), ("complex128", False),
    ("float32", True), ("float32", False),
)  # fmt: skip
NAMES = ("numpy", "scipy", "jax", "torch", "torch, pool")
# largest n, must reach, aim; of issue 3
GOALS: dict[tuple[str, bool], tuple[tuple[int, float, float | None], ...]] = {
    ("float64", True): ((4, 12, 25), (16, 8, 14), (32, 5, 8), (64, 2.5, 4), (9999, 1, 1.3)),
    ("float64", False): ((4, 10, None), (16, 6, None), (32, 4.5, None), (64, 3, None)),
    ("complex128", True): ((16, 6, None), (32, 4, None), (9999, 1, None)),
}
SINGLE = 1.6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    add_options(parser, SIZES, 5)


def run(options: argparse.Namespace) -> None:
    """Measure and write the tables."""
    blocks = [describe_machine() + f"; {THREADS} threads, medians of {options.rounds} rounds."]
    if peers.import_jax() is None:
        blocks.append("jax is not installed, so it is not among the peers.")
    ours: dict[tuple[str, bool, int], float] = {}
    for dtype, vectors in KINDS:
        rows = []
        for n in options.sizes:
            times = measure(n, dtype, vectors, options.rounds, options.seconds)
            ours[dtype, vectors, n] = times["ours"]
            rows.append(make_row(n, dtype, vectors, times, ours))
            print(dtype, "vectors" if vectors else "values", *rows[-1], file=sys.stderr)
        blocks.append(title(dtype, vectors) + "\n\n" + make_table(head(dtype), rows))
    publish("kernels", "\n\n".join(blocks), not options.dry)


def measure(n: int, dtype: str, vectors: bool, rounds: int, seconds: float) -> dict[str, float]:
    """Microseconds a matrix, ours and each peer's."""
    import kernels

    count = count_for(n, seconds)
    a: Any = hermitian(np.random.default_rng(n), count, n, dtype)
    others = peers.find_peers(a, vectors)
    contenders = {name: work for name, (work, _) in others.items()}
    contenders["ours"] = lambda: kernels.eigh(a, vectors=vectors, threads=THREADS)
    found = take_turns(contenders, rounds)
    factor = {name: share for name, (_, share) in others.items()}
    return {name: t * factor.get(name, 1.0) / count * 1e6 for name, t in found.items()}


def head(dtype: str) -> list[str]:
    """Column names."""
    last = ["float64 / float32"] if dtype == "float32" else ["must", "aim"]
    return ["n", "driver", "ours, µs", *(f"{p}, µs" for p in NAMES), "best peer / ours", *last]


def title(dtype: str, vectors: bool) -> str:
    """Heading of a table."""
    return f"**{dtype}, {'values and vectors' if vectors else 'values only'}**"


def make_row(
    n: int, dtype: str, vectors: bool, times: dict[str, float], ours: dict[Any, float]
) -> list[object]:
    """One line of the table; a goal that is not reached is in bold."""
    import kernels

    mine = times["ours"]
    ratio = min(t for name, t in times.items() if name != "ours") / mine
    row: list[object] = [n, kernels.choose_driver(n, dtype, "cpu", vectors), mine]
    row += [times.get(name, "–") for name in NAMES]
    if dtype == "float32":
        gain = ours.get(("float64", vectors, n), np.nan) / mine
        return [*row, f"{ratio:.1f}", f"{gain:.2f}" if gain >= SINGLE else f"**{gain:.2f}**"]
    goal = next((g for g in GOALS.get((dtype, vectors), ()) if n <= g[0]), None)
    must, aim = (goal[1], goal[2]) if goal else (None, None)
    shown = f"{ratio:.1f}" if must is None or ratio >= must else f"**{ratio:.1f}**"
    return [*row, shown, *("–" if x is None else f"{x:g}" for x in (must, aim))]
