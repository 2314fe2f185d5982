"""Errors that are honest, and those of scipy."""

from __future__ import annotations

from typing import Any

import fit_cases as cases
import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit

import kernels


@pytest.mark.parametrize("name", ["gaussian", "lorentzian", "gaussian + gaussian"])
def test_pulls(name: str) -> None:
    """Mean 0 and width 1 within 2%, of 10^4 noisy curves (3 times the deviation of the width)."""
    count, rng = 10_000, np.random.default_rng(3)
    x = np.linspace(-6, 6, 80)
    one = np.array([rng.uniform(8, 12, count), rng.uniform(-0.5, 0.5, count),
                    rng.uniform(0.7, 1.2, count)]).T  # fmt: skip
    true = one
    if "+" in name:
        apart = np.array([0, 2.5, 0])
        true = np.concatenate([one - apart, one + apart], -1)
    clean = kernels.models.find(name).function(torch.from_numpy(x), torch.from_numpy(true))
    y = clean.numpy() + 0.1 * rng.standard_normal((count, 80))
    found = kernels.fit(name, x, y, true * 1.02, sigma=0.1)
    assert found.converged.all()
    pulls = (found.params - true) / found.stderr
    assert np.abs(pulls.mean(0)).max() < 0.04 and np.abs(pulls.std(0) - 1).max() < 0.025
    assert abs(found.redchi.mean() - 1) < 0.01


def height(x: Any, h: Any, c: Any, s: Any, o: Any) -> Any:
    return h * np.exp(-0.5 * ((x - c) / s) ** 2) + o


def slopes(x: Any, h: Any, c: Any, s: Any, o: Any) -> Any:
    u = (x - c) / s
    e = np.exp(-0.5 * u**2)
    return np.stack([e, h * e * u / s, h * e * u * u / s, np.ones_like(x)], -1)


@pytest.mark.parametrize("absolute", [False, True])
def test_scipy(absolute: bool) -> None:
    y, _, start = cases.curves(500, 7)
    sigma = cases.NOISE * (1 + 0.5 * np.sin(cases.X)) if absolute else None
    found = kernels.fit(cases.peak, cases.X, y, start, sigma=sigma)
    for k in range(len(y)):
        best, covariance = curve_fit(
            height, cases.X, y[k], start[k], sigma=sigma, absolute_sigma=absolute, jac=slopes,
            ftol=1e-15, xtol=1e-15, gtol=1e-15,
        )  # fmt: skip
        error = np.sqrt(np.diag(covariance))
        assert (np.abs(found.params[k] - best) < 1e-8 * np.abs(best) + 1e-6 * error).all()
        assert np.abs(found.stderr[k] / error - 1).max() < 1e-6
        assert np.abs(found.covariance[k] - covariance).max() < 1e-6 * np.abs(covariance).max()


@pytest.mark.parametrize("loss", ["soft_l1", "cauchy"])
def test_robust_losses(loss: str) -> None:
    y, true, start = cases.curves(20, 5)
    y[:, ::9] += 1.5
    plain = kernels.fit(cases.peak, cases.X, y, start)
    found = kernels.fit(cases.peak, cases.X, y, start, loss=loss, loss_scale=0.1)
    assert found.converged.all()
    assert np.abs(found.params - true).mean() < 0.3 * np.abs(plain.params - true).mean()
    for k in range(5):
        best, covariance = curve_fit(
            height, cases.X, y[k], start[k], jac=slopes, method="trf", loss=loss, f_scale=0.1,
            ftol=1e-15, xtol=1e-15, gtol=1e-15,
        )  # fmt: skip
        error = np.sqrt(np.diag(covariance))
        assert np.abs((found.params[k] - best) / error).max() < 1e-4
        assert np.abs(found.stderr[k] / error - 1).max() < 1e-4


def test_no_degrees_of_freedom() -> None:
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([[1.0, 2.0, 1.5, 0.4]])
    start = np.array([2.0, 1.0, 1.0, 0.0])
    scaled = kernels.fit(cases.peak, x, y, start)
    given = kernels.fit(cases.peak, x, y, start, sigma=0.1)
    assert scaled.converged.all() and np.isnan(scaled.stderr).all() and np.isnan(scaled.redchi)
    assert given.converged.all() and (given.stderr > 0).all()
