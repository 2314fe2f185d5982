"""Curves that the tests of the fits draw from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kernels

X = np.linspace(-5, 5, 50)
NOISE = 0.05


def peak(x: Any, params: Any) -> Any:
    """height, center, sigma, offset."""
    u = (x - params[..., 1:2]) / params[..., 2:3]
    return params[..., 0:1] * torch.exp(-0.5 * u**2) + params[..., 3:4]


def truths(count: int, seed: int = 0) -> Any:
    low, high = np.array([[1, -1, 0.5, 0], [3, 1, 1.5, 1]], float)
    return np.random.default_rng(seed).uniform(low, high, (count, 4))


def curves(count: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """y, true parameters, starts within 10% of them."""
    rng, true = np.random.default_rng(seed + 1), truths(count, seed)
    clean = peak(torch.from_numpy(X), torch.from_numpy(true)).numpy()
    y = clean + NOISE * rng.standard_normal((count, 50))
    return y, true, true * (1 + 0.1 * rng.uniform(-1, 1, true.shape))


def rows(fit: Any, index: Any) -> Any:
    return kernels.Fit(*(np.asarray(a)[index] for a in fit))


def differing(a: Any, b: Any) -> list[str]:
    """Fields that do not have the same bits."""
    return [
        name
        for name, u, v in zip(a._fields, a, b, strict=True)
        if np.ascontiguousarray(u).tobytes() != np.ascontiguousarray(v).tobytes()
    ]


def nist(shared: Path) -> list[Any]:
    folder = shared / "data" / "E_nist_strd"
    found: list[Any] = json.loads((folder / "nist_strd_nonlinear.json").read_text())["datasets"]
    return found


def nist_problem(data: Any) -> tuple[Callable[[Any, Any], Any], Any, Any]:
    """Model, x and y."""
    names = {"exp": torch.exp, "log": torch.log, "cos": torch.cos, "sin": torch.sin,
             "arctan": torch.arctan, "pi": math.pi}  # fmt: skip
    code = compile(data["model"], data["name"], "eval")

    def model(x: Any, params: Any) -> Any:
        variables = {"x": x} if torch.is_tensor(x) else {"x1": x[0], "x2": x[1]}
        found = {f"b{k + 1}": params[..., k : k + 1] for k in range(params.shape[-1])}
        return eval(code, {**names, **variables, **found})

    y = np.array(data["y"])
    y = y if data["response"] == "y" else np.log(y)
    x: Any = np.array(data["x"]) if "x" in data else (np.array(data["x1"]), np.array(data["x2"]))
    return model, x, y


def digits(found: Any, exact: Any) -> float:
    """Least number of digits that agree."""
    error = np.max(np.abs(np.asarray(found) / np.asarray(exact, float) - 1))
    return 16.0 if error == 0 else float(-np.log10(error))
