"""What one call costs, whatever it has to solve: one small matrix."""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch

from benchmarks.timing import (
    Work,
    add_options,
    describe_machine,
    hermitian,
    make_table,
    publish,
    take_turns,
)

SIZES = (3,)
# µs a call, for n = 3
GOALS = {"numpy": 30, "tensor": 30, "through the operator": 100, "with a gradient": 100}
EACH = 2e-5
"""Seconds a call, roughly."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    add_options(parser, SIZES, 15)


def run(options: argparse.Namespace) -> None:
    """Measure and write the table; what costs more than it may is in bold."""
    rows: list[list[object]] = []
    for n in options.sizes:
        times = measure(n, options.rounds, max(1, int(options.seconds / EACH)))
        for name, time in times.items():
            must = GOALS.get(name)
            shown = f"**{time:.1f}**" if must and time >= must else f"{time:.1f}"
            rows.append([n, name, shown, f"< {must}" if must else "–"])
            print(*rows[-1], file=sys.stderr)
    text = f"{describe_machine()}; float64, the fastest of {options.rounds} rounds.\n\n"
    publish("call", text + make_table(["n", "call", "µs", "must"], rows), not options.dry)


def measure(n: int, rounds: int, repeat: int) -> dict[str, float]:
    """Microseconds a call."""
    calls = list_calls(n)

    def loop(call: Work) -> Work:
        def work() -> None:
            for _ in range(repeat):
                call()

        return work

    # the fastest round: what a call costs, without what else the machine was doing
    times = take_turns({name: loop(call) for name, call in calls.items()}, rounds, min)
    return {name: t / repeat * 1e6 for name, t in times.items()}


def list_calls(n: int) -> dict[str, Work]:
    """Calls of `kernels.eigh` for one matrix, with values, vectors and probe; and its peers'."""
    import kernels

    a = hermitian(np.random.default_rng(n), 1, n, "float64")[0]
    tensor = torch.from_numpy(a)
    followed = tensor.clone().requires_grad_()
    how = "lower", None, "auto", "probe", True, None, -1.0
    return {
        "numpy": lambda: kernels.eigh(a),
        "tensor": lambda: kernels.eigh(tensor),
        "through the operator": lambda: torch.ops.eigenstream.eigh(tensor, *how),
        "with a gradient": lambda: kernels.eigh(followed),
        "numpy.linalg.eigh": lambda: np.linalg.eigh(a),
        "torch.linalg.eigh": lambda: torch.linalg.eigh(tensor),
    }
