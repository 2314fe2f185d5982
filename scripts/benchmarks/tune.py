"""Each driver for itself: the figures behind the constants of `kernels.choose_driver`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks.timing import (
    DTYPES,
    THREADS,
    Work,
    add_options,
    count_for,
    describe_machine,
    hermitian,
    make_table,
    publish,
    take_turns,
)

SIZES = (2, 3, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    add_options(parser, SIZES, 7, DTYPES)


def run(options: argparse.Namespace) -> None:
    """Measure, and say where the choice is not the fastest."""
    from kernels.drivers import DRIVERS

    rows: list[list[object]] = []
    for dtype in options.dtypes:
        for vectors in (True, False):
            for n in options.sizes:
                rows.append(measure(n, dtype, vectors, DRIVERS, options.rounds, options.seconds))
                print(*rows[-1], file=sys.stderr)
    head = ["dtype", "wanted", "n", *(f"{d}, µs" for d in DRIVERS), "fastest", "chosen"]
    text = describe_machine() + f"; {THREADS} threads.\n\n" + make_table(head, rows)
    publish("tune", text, not options.dry)


def measure(
    n: int, dtype: str, vectors: bool, drivers: tuple[str, ...], rounds: int, seconds: float
) -> list[object]:
    """Microseconds a matrix by each driver that takes it."""
    import kernels

    count = count_for(n, seconds)
    a: Any = hermitian(np.random.default_rng(n), count, n, dtype)
    contenders: dict[str, Work] = {}
    for driver in drivers:

        def work(driver: str = driver) -> object:
            return kernels.eigh(a, vectors=vectors, driver=driver, threads=THREADS)

        try:
            kernels.eigh(a[:1], vectors=vectors, driver=driver)
        except ValueError:
            continue
        contenders[driver] = work
    times = {k: t / count * 1e6 for k, t in take_turns(contenders, rounds).items()}
    fastest = min(times, key=lambda name: times[name])
    chosen = kernels.choose_driver(n, dtype, "cpu", vectors)
    mark = chosen if times[chosen] <= 1.05 * times[fastest] else f"**{chosen}**"
    found = [times.get(d, "–") for d in drivers]
    return [dtype, "vectors" if vectors else "values", n, *found, fastest, mark]
