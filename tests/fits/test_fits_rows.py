"""One bad curve stays alone, to the last bit."""

from __future__ import annotations

from typing import Any

import fit_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels import FitStatus
from kernels.fits import curves, tile

BAD = {3: FitStatus.no_data, 500: FitStatus.singular, 700: FitStatus.no_data, 900: None}


def thousand() -> tuple[Any, Any, Any]:
    """With a NaN curve, a constant one, one of two points, an absurd start; and which are good."""
    y, _, start = cases.curves(1000, 1)
    start[::7] *= 3  # some need more steps, some get lost
    y[3], y[500], y[700, :-2], start[900] = np.nan, 0.7, np.nan, [1e12, 300, 1e-9, -1e20]
    return y, start, np.setdiff1d(np.arange(1000), list(BAD))


@pytest.mark.parametrize("method", ["adam+lm", "lm", "adagrad", "sgd+lm"])
def test_a_bad_curve_stays_alone(method: str) -> None:
    y, start, good = thousand()
    how: dict[str, Any] = {"method": method, "steps": 30}
    found = kernels.fit(cases.peak, cases.X, y, start, **how)
    if method in ("adam+lm", "lm"):
        for row, status in BAD.items():
            assert status is None or found.status[row] == status
        assert found.converged[good].all() and not found.converged[list(BAD)].any()
    alone = kernels.fit(cases.peak, cases.X, y[good], start[good], **how)
    assert cases.differing(cases.rows(found, good), alone) == []
    turned = kernels.fit(cases.peak, cases.X, y[::-1], start[::-1], **how)
    assert cases.differing(found, cases.rows(turned, slice(None, None, -1))) == []
    for row in (0, 7, 999):
        one = kernels.fit(cases.peak, cases.X, y[row : row + 1], start[row], **how)
        assert cases.differing(cases.rows(found, [row]), one) == []


def test_named_models_and_guesses_keep_to_their_rows() -> None:
    y, _, good = thousand()
    found = kernels.fit("gaussian + constant", cases.X, y)
    alone = kernels.fit("gaussian + constant", cases.X, y[good][::-1])
    assert cases.differing(cases.rows(found, good), cases.rows(alone, slice(None, None, -1))) == []
    assert found.converged[good].all()


def test_threads_and_tiles_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    y, start, _ = thousand()
    before = torch.get_num_threads()
    plain = kernels.fit(cases.peak, cases.X, y, start, threads=1)
    assert cases.differing(plain, kernels.fit(cases.peak, cases.X, y, start, threads=3)) == []
    assert torch.get_num_threads() == before
    monkeypatch.setattr(tile, "WIDEST", 192)
    narrow = kernels.fit(cases.peak, cases.X, y, start, threads=2)
    assert cases.differing(plain, narrow) == []


def test_scripts_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    y, start, good = thousand()
    monkeypatch.setattr(tile, "WIDEST", 256)
    for rows in (good, np.arange(1000)):
        plain = kernels.fit(cases.peak, cases.X, y[rows], start[rows], threads=2)
        monkeypatch.setattr(curves, "WORTH", 1)
        script = kernels.fit(cases.peak, cases.X, y[rows], start[rows], threads=2)
        assert cases.differing(plain, script) == []
        monkeypatch.undo()
        monkeypatch.setattr(tile, "WIDEST", 256)
    robust = {"loss": "cauchy", "sigma": 0.05, "bounds": {2: (0, None)}}
    plain = kernels.fit(cases.peak, cases.X, y, start, **robust)
    monkeypatch.setattr(curves, "WORTH", 1)
    assert cases.differing(plain, kernels.fit(cases.peak, cases.X, y, start, **robust)) == []


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_other_kinds_of_data(dtype: str) -> None:
    y, start, good = thousand()
    y = (y * (1 + 0.3j)).astype(dtype) if dtype == "complex128" else y.astype(dtype)

    def model(x: Any, params: Any) -> Any:
        value = cases.peak(x, params)
        return value * (1 + 0.3j) if dtype == "complex128" else value

    found = kernels.fit(model, cases.X, y, start)
    alone = kernels.fit(model, cases.X, y[good], start[good])
    assert cases.differing(cases.rows(found, good), alone) == []
    assert found.params.dtype == ("float32" if dtype == "float32" else "float64")
    assert found.converged[good].all()


def test_many_points_do_not_change_the_rule() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(-5, 5, 3001)
    true = cases.truths(70)
    clean = cases.peak(torch.from_numpy(x), torch.from_numpy(true)).numpy()
    y = clean + 0.1 * rng.standard_normal(clean.shape)
    found = kernels.fit(cases.peak, x, y, true)
    y[5] = np.nan
    again = kernels.fit(cases.peak, x, y, true)
    rest = np.setdiff1d(np.arange(70), [5])
    assert cases.differing(cases.rows(found, rest), cases.rows(again, rest)) == []
