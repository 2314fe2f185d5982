"""`kernels.fit` against a loop of scipy's curve_fit; fused against unfused steps; NIST digits."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import THREADS, describe_machine, make_table, publish, take_turns

POINTS = 50
FEW = 400
"""Fits of a contender that takes its time for each."""
MUST, AIM = 50, 150


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000], metavar="N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.0, help="not used: N fits are made")
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")


def run(options: argparse.Namespace) -> None:
    """Measure and write the tables."""
    import torch

    torch.set_num_threads(THREADS)
    blocks = [describe_machine() + f"; {THREADS} threads, medians of {options.rounds} rounds."]
    rows = []
    for n in options.sizes:
        times = measure(n, options.rounds)
        loop = times["scipy curve_fit"]
        rows += [[n, name, t, loop / t] for name, t in times.items()]
        print(n, times, file=sys.stderr)
    title = "**Gaussian of four parameters, 50 points, starts within 10%**\n\n"
    blocks.append(title + make_table(["fits", "contender", "µs a fit", "curve_fit / it"], rows))
    blocks.append(compare_steps(options.rounds))
    digits = count_digits()
    if digits is not None:
        blocks.append(digits)
    publish("fit", "\n\n".join(blocks), not options.dry)


def make_curves(count: int) -> tuple[Any, Any, Any]:
    """x, y and starts."""
    rng = np.random.default_rng(1)
    x = np.linspace(-5, 5, POINTS)
    low, high = np.array([[1, -1, 0.5, 0], [3, 1, 1.5, 1]], float)
    true = rng.uniform(low, high, (count, 4))
    y = np.stack([curve(x, *row) for row in true]) + 0.05 * rng.standard_normal((count, POINTS))
    return x, y, true * (1 + 0.1 * rng.uniform(-1, 1, true.shape))


def curve(x: Any, h: Any, c: Any, s: Any, o: Any) -> Any:
    """The model for scipy."""
    return h * np.exp(-0.5 * ((x - c) / s) ** 2) + o


def model(x: Any, params: Any) -> Any:
    """The model for ours."""
    import torch

    u = (x - params[..., 1:2]) / params[..., 2:3]
    return params[..., 0:1] * torch.exp(-0.5 * u**2) + params[..., 3:4]


def measure(n: int, rounds: int) -> dict[str, float]:
    """Microseconds a fit, of each contender."""
    import kernels

    x, y, start = make_curves(n)
    few = min(n, FEW)

    def loop() -> None:
        from scipy.optimize import curve_fit

        for k in range(few):
            curve_fit(curve, x, y[k], start[k])

    times = take_turns({
        "scipy curve_fit": loop,
        "kernels.fit": lambda: kernels.fit(model, x, y, start, threads=THREADS),
        "kernels.fit, 1 thread": lambda: kernels.fit(model, x, y, start, threads=1),
        "kernels.fit, by name and guess": lambda: kernels.fit(
            "gaussian + constant", x, y, threads=THREADS),
    }, rounds)  # fmt: skip
    return {k: t / (few if k.startswith("scipy") else n) * 1e6 for k, t in times.items()}


def compare_steps(rounds: int) -> str:
    """A step of Adam on many problems: one fused call, foreach, and one optimizer a problem."""
    import torch

    wide, few, number = 10_000, 200, 20

    def descend(count: int, separate: bool, **how: Any) -> Any:
        def work() -> None:
            shapes = [(4,)] * count if separate else [(4, count)]
            params = [torch.zeros(s, dtype=torch.float64, requires_grad=True) for s in shapes]
            groups = [[p] for p in params] if separate else [params]
            optimizers = [torch.optim.Adam(g, lr=0.01, **how) for g in groups]
            for p in params:
                p.grad = torch.ones_like(p)
            for _ in range(number):
                for optimizer in optimizers:
                    optimizer.step()

        return work

    times = take_turns({
        "fused, one tensor": descend(wide, False, fused=True),
        "foreach, one tensor": descend(wide, False, foreach=True),
        "for loop, one tensor": descend(wide, False, foreach=False, fused=False),
        "one fused optimizer a problem": descend(few, True, fused=True),
    }, rounds)  # fmt: skip
    each = {k: t / number / (few if "a problem" in k else wide) * 1e9 for k, t in times.items()}
    best = each["fused, one tensor"]
    rows = [[name, t, t / best] for name, t in each.items()]
    title = "**A step of Adam on problems of four parameters, float64**\n\n"
    return title + make_table(["optimizer", "ns a problem and step", "relative to fused"], rows)


def count_digits() -> str | None:
    """Digits that agree with the exact answers of the NIST sets, where the data are there."""
    root = Path(__file__).resolve().parents[2].parent / "shared"
    folder = Path(os.environ.get("EIGENSTREAM_SHARED", root)) / "data" / "E_nist_strd"
    path = folder / "nist_strd_nonlinear.json"
    if not path.exists():
        return None
    rows = [row for data in json.loads(path.read_text())["datasets"] for row in fit_both(data)]
    head = ["set", "start", "status", "evaluations", "parameters", "standard errors", "chi2"]
    title = "**NIST StRD: least number of correct digits, `method=lm`, `tol=1e-10`, one start**\n\n"
    return title + make_table(head, rows)


def fit_both(data: Any) -> list[list[object]]:
    """Rows of the table, for both official starts."""
    import torch

    import kernels

    names = {k: getattr(torch, k) for k in ("exp", "log", "cos", "sin", "arctan")}
    code = compile(data["model"], data["name"], "eval")

    def f(x: Any, params: Any) -> Any:
        variables = {"x": x} if isinstance(x, torch.Tensor) else {"x1": x[0], "x2": x[1]}
        b = {f"b{k + 1}": params[..., k : k + 1] for k in range(params.shape[-1])}
        return eval(code, {**names, "pi": math.pi, **variables, **b})

    y = np.array(data["y"])
    y = y if data["response"] == "y" else np.log(y)
    x: Any = np.array(data["x"]) if "x" in data else (np.array(data["x1"]), np.array(data["x2"]))
    rows: list[list[object]] = []
    for k in (1, 2):
        found = kernels.fit(f, x, y, np.array(data[f"start{k}"]), method="lm", tol=1e-10)
        exact = (data["refined"], data["refined_sd"], data["refined_rss"])
        pairs = zip((found.params, found.stderr, found.chi2), exact, strict=True)
        digits = [f"{agree(a, b):.1f}" for a, b in pairs]
        status = kernels.FitStatus(int(found.status)).name
        rows.append([data["name"], k, status, int(found.iterations), *digits])
    return rows


def agree(found: Any, exact: Any) -> float:
    """Least number of digits that agree."""
    error = float(np.max(np.abs(np.asarray(found) / np.asarray(exact, float) - 1)))
    return 16.0 if error == 0 else -math.log10(error)
