"""A few pairs against the whole spectrum: the figures behind `kernels.subset.is_few`."""

from __future__ import annotations

import argparse
import sys
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.timing import (
    DTYPES,
    THREADS,
    add_options,
    count_for,
    describe_machine,
    hermitian,
    make_table,
    publish,
    take_turns,
)

SIZES = (32, 48, 64, 80, 96, 128, 200, 256, 400)
SHARES = (0.0, 0.1, 0.25, 0.5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    add_options(parser, SIZES, 5, DTYPES)


def run(options: argparse.Namespace) -> None:
    """Measure every size and share; an entry where the rule takes the slower way is in bold."""
    rows = []
    for dtype in options.dtypes:
        for n in options.sizes:
            rows.append(measure(n, dtype, options.rounds, options.seconds))
            print(*rows[-1], file=sys.stderr)
    shares = ["1 pair" if s == 0 else f"{s:.0%}" for s in SHARES]
    head = ["dtype", "n", "whole, µs", *(f"whole / {s}" for s in shares)]
    text = (
        describe_machine()
        + f"; {THREADS} threads; in brackets: where the rule solves the whole spectrum all the"
        + " same; in bold: where the rule takes the slower way by more than a tenth.\n\n"
        + make_table(head, rows)
    )
    publish("subset", text, not options.dry)


def measure(n: int, dtype: str, rounds: int, seconds: float) -> list[object]:
    """Microseconds for the whole, and how many times faster each share is."""
    import kernels
    from kernels import subset

    count = max(8, count_for(n, seconds) // 2)
    a: Any = hermitian(np.random.default_rng(n), count, n, dtype)
    pairs = [max(1, int(n * share)) for share in SHARES]

    def work(m: int) -> object:
        with mock.patch.object(subset, "is_few", lambda *_: True):
            return kernels.eigh(a, subset=[n - m, n], threads=THREADS)

    contenders = {str(m): (lambda m=m: work(m)) for m in pairs}
    contenders["whole"] = lambda: kernels.eigh(a, threads=THREADS)
    times = take_turns(contenders, rounds)
    row: list[object] = [dtype, n, times["whole"] / count * 1e6]
    for m in pairs:
        gain, few = times["whole"] / times[str(m)], subset.is_few(n, m, np.dtype(dtype), True)
        shown = f"{gain:.2f}" if few else f"({gain:.2f})"
        row.append(f"**{shown}**" if (gain < 0.9) == few and not 0.9 < gain < 1.1 else shown)
    return row
