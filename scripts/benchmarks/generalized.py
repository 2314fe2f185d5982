"""A x = lambda B x against scipy.linalg.eigh(a, b) in a loop."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import scipy.linalg

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
GOAL, GOAL_UP_TO = 5.0, 16
SHARE = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    add_options(parser, SIZES, 7)


def run(options: argparse.Namespace) -> None:
    """Measure and write the table."""
    rows = []
    for dtype in ("float64", "complex128", "float32"):
        for vectors in (True, False):
            for n in options.sizes:
                rows.append(measure(n, dtype, vectors, options.rounds, options.seconds))
                print(*rows[-1], file=sys.stderr)
    head = ["dtype", "wanted", "n", "ours, µs", "scipy, µs", "scipy / ours", "must"]
    text = describe_machine() + f"; {THREADS} threads.\n\n" + make_table(head, rows)
    publish("generalized", text, not options.dry)


def measure(n: int, dtype: str, vectors: bool, rounds: int, seconds: float) -> list[object]:
    """Microseconds a pencil."""
    import kernels

    count, rng = max(SHARE, count_for(n, seconds) // 2), np.random.default_rng(n)
    a: Any = hermitian(rng, count, n, dtype)
    half: Any = hermitian(rng, count, n, dtype)
    b = half @ half.conj().swapaxes(-1, -2) / n + np.eye(n, dtype=dtype)
    part = max(1, count // SHARE)

    def loop() -> None:
        for left, right in zip(a[:part], b[:part], strict=True):
            scipy.linalg.eigh(left, right, eigvals_only=not vectors, check_finite=False)

    def ours() -> object:
        return kernels.eigh(a, b=b, vectors=vectors, threads=THREADS)

    times = take_turns({"scipy": loop, "ours": ours}, rounds)
    mine, theirs = times["ours"] / count * 1e6, times["scipy"] / part * 1e6
    must = GOAL if n <= GOAL_UP_TO else None
    ratio = f"{theirs / mine:.1f}"
    if must and theirs / mine < must:
        ratio = f"**{ratio}**"
    return [dtype, "vectors" if vectors else "values", n, mine, theirs, ratio, must or "–"]
