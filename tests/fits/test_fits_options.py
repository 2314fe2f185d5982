"""Status, bounds, fixed and tied parameters, masks, variables, misuse."""

from __future__ import annotations

from typing import Any

import fit_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels import FitStatus


def test_status() -> None:
    y, true, start = cases.curves(8)
    y[0], y[1, 4:], y[2, 3], y[3] = np.nan, np.nan, np.inf, 0.0
    y[1, 3] = np.nan
    start[4], start[3] = np.nan, 1.0
    found = kernels.fit(cases.peak, cases.X, y, start)
    expected = ["no_data", "no_data", "nonfinite", "singular", "nonfinite"]
    assert [FitStatus(s).name for s in found.status[:5]] == expected
    assert (found.status[5:] == FitStatus.converged).all()
    assert (found.converged == (found.status == 0)).all()
    assert np.isnan(found.stderr[:5]).all() and np.isnan(found.covariance[:5]).all()
    assert np.isnan(found.params[[0, 1, 2, 4]]).all() and abs(found.params[3, 0]) < 1e-100
    assert found.parameter[3] in (1, 2) and (found.parameter[[0, 1, 2, 4, 5, 6, 7]] == -1).all()
    stopped = kernels.fit(
        cases.peak, cases.X, y[5:], start[5:] * 1.3, max_iterations=2, method="lm"
    )
    assert (stopped.status == FitStatus.limit).all() and (stopped.iterations == 2).all()
    assert np.isfinite(stopped.params).all() and np.isnan(stopped.stderr).all()
    assert np.abs(found.params[5:] - true[5:]).max() < 0.3


def test_two_parameters_for_one() -> None:
    y, _, start = cases.curves(3)

    def twice(x: Any, params: Any) -> Any:
        return cases.peak(x, params[..., :4]) + params[..., 4:5]

    found = kernels.fit(twice, cases.X, y, np.concatenate([start, start[:, 3:]], -1))
    assert (found.status == FitStatus.singular).all() and (found.parameter == 4).all()
    assert np.isnan(found.stderr).all() and not found.converged.any()


def test_bounds() -> None:
    y, _, start = cases.curves(40)
    free = kernels.fit(cases.peak, cases.X, y, start)
    names = ("height", "center", "sigma", "offset")
    wide = {"height": (0, 10), "sigma": (0, None), "offset": (None, 5)}
    found = kernels.fit(cases.peak, cases.X, y, start, bounds=wide, names=names)
    near = free.params[:, 3] < 0.02
    assert (found.converged == free.converged)[~near].all()
    assert np.abs((found.params - free.params) / free.stderr)[~near].max() < 1e-5
    assert np.abs(found.stderr / free.stderr - 1)[~near].max() < 1e-5  # those of the parameters
    tight = np.array([0.0, -9, 0, 0]), np.array([9.0, 9, 0.4, 9])
    held = kernels.fit(cases.peak, cases.X, y, start, bounds=tight)
    at = held.status == FitStatus.bound
    assert at.any() and held.converged[at].all() and (held.params[:, 2] <= 0.4).all()
    where = at & (held.parameter == 2)
    assert np.allclose(held.params[where, 2], 0.4) and np.isnan(held.stderr[where, 2]).all()
    assert np.isfinite(held.stderr[where][:, :2]).all()


def test_a_parameter_on_its_bound_counts_as_fixed() -> None:
    y, _, start = cases.curves(20)
    held = kernels.fit(cases.peak, cases.X, y, start, bounds={2: (0.0, 0.45)})
    fixed = kernels.fit(cases.peak, cases.X, y, start, fixed={2: 0.45})
    at = held.status == FitStatus.bound
    assert at.sum() > 10
    assert np.abs((held.params - fixed.params)[at][:, [0, 1, 3]]).max() < 1e-5
    ratio = np.sqrt(46 / 47)  # the parameter on its bound is still counted
    assert np.abs(fixed.stderr[at][:, 0] / held.stderr[at][:, 0] / ratio - 1).max() < 1e-4


def test_fixed_and_tied() -> None:
    y, true, start = cases.curves(30)
    found = kernels.fit(cases.peak, cases.X, y, true, fixed=[1])
    assert (found.params[:, 1] == true[:, 1]).all() and (found.stderr[:, 1] == 0).all()
    assert (found.covariance[:, 1] == 0).all() and found.converged.all()

    def three(x: Any, params: Any) -> Any:
        fixed = torch.cat(
            [params[..., :1], params[..., 1:2], params[..., 2:3], params[..., :1]], -1
        )
        return cases.peak(x, fixed)

    tied = kernels.fit(cases.peak, cases.X, y, start, tied={3: 0})
    other = kernels.fit(three, cases.X, y, start[:, :3])
    assert (tied.params[:, 3] == tied.params[:, 0]).all()
    assert np.abs(tied.params[:, :3] / other.params - 1).max() < 1e-6
    assert np.abs(tied.stderr[:, :3] / other.stderr - 1).max() < 1e-6
    assert (tied.covariance[:, 3, 0] == tied.covariance[:, 0, 0]).all()


def test_masks_leave_out_before_the_loss() -> None:
    y, _, start = cases.curves(12)
    mask = np.ones_like(y, bool)
    mask[:, 40:] = False
    plain = kernels.fit(cases.peak, cases.X[:40], y[:, :40], start)
    wild = y.copy()
    wild[:, 40:] = np.inf
    nan = y.copy()
    nan[:, 40:] = np.nan
    for found in (
        kernels.fit(cases.peak, cases.X, wild, start, mask=mask),
        kernels.fit(cases.peak, cases.X, wild, start, mask=mask[0]),
        kernels.fit(cases.peak, cases.X, nan, start),
        kernels.fit(cases.peak, np.where(mask[0], cases.X, np.nan), y, start),
        kernels.fit(cases.peak, cases.X, y, start, sigma=np.where(mask, 1.0, np.inf)),
    ):
        assert found.converged.all()
        assert np.abs(found.params / plain.params - 1).max() < 1e-6
        assert np.abs(found.chi2 / plain.chi2 - 1).max() < 1e-12
    log = kernels.fit(
        lambda x, p: p[..., 0:1] + p[..., 1:2] * torch.log(x), [0.0, 1, 2, 3, 4],
        np.array([9.0, 1, 2, 2.5, 3]), [1.0, 1.0], mask=np.array([False, True, True, True, True]),
    )  # fmt: skip
    assert log.converged and np.isfinite(log.stderr).all()


def test_several_variables_complex_data_and_kinds() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.uniform(-1, 1, (2, 60))
    true = np.array([[1.5, -0.5, 0.8], [0.3, 2.0, 1.2]])

    def plane(x: Any, params: Any) -> Any:
        a, b, c = (params[..., k : k + 1] for k in range(3))
        return a * torch.exp(1j * b * x[0]) + c * x[1]

    clean = plane(tuple(map(torch.from_numpy, (u, v))), torch.from_numpy(true))
    noise = rng.standard_normal((2, 60)) + 1j * rng.standard_normal((2, 60))
    y = clean + 0.01 * torch.from_numpy(noise)
    found = kernels.fit(plane, (u, v), y, true * 1.1, sigma=0.01)
    assert isinstance(found.params, torch.Tensor) and found.converged.all()
    pulls = (found.params - torch.from_numpy(true)) / found.stderr
    assert pulls.abs().max() < 4 and ((found.redchi - 1).abs() < 0.5).all()
    batched = kernels.fit(plane, (np.tile(u, (2, 1)), v), y, true * 1.1, sigma=0.01)
    assert torch.equal(found.params, batched.params)
    deep = kernels.fit(plane, (u, v), y.reshape(1, 2, 60), true * 1.1, sigma=0.01)
    assert deep.params.shape == (1, 2, 3) and torch.equal(deep.params[0], found.params)
    whole = kernels.fit("linear", np.arange(5), np.arange(5) * 3 + 1)
    assert np.allclose(whole.params, [3, 1]) and whole.params.shape == (2,) and whole.converged
    assert kernels.fit("linear", np.arange(5), np.zeros((0, 5))).params.shape == (0, 2)


def test_first_order_methods_and_starts() -> None:
    y, _, start = cases.curves(20)
    exact = kernels.fit(cases.peak, cases.X, y, start)
    for method in ("adam", "adamw", "adagrad", "sgd"):
        found = kernels.fit(cases.peak, cases.X, y, start, method=method, steps=400)
        begun = (y - cases.peak(torch.from_numpy(cases.X), torch.from_numpy(start)).numpy()) ** 2
        assert (found.chi2 < begun.sum(-1)).all() and (found.chi2 >= exact.chi2 - 1e-12).all()
    far = start * np.array([1, -6, 1, 1])
    once = kernels.fit(cases.peak, cases.X, y, far, method="lm")
    often = kernels.fit(cases.peak, cases.X, y, far, method="lm", starts=12, spread=2.0)
    same = [(np.abs(f.chi2 / exact.chi2 - 1) < 1e-9).sum() for f in (once, often)]
    assert same[1] >= same[0] and (often.chi2 <= once.chi2 + 1e-12)[once.converged].all()


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"model": "gausian"}, "gausian.*expected one of gaussian"),
        ({"model": 3}, "model: got 3"),
        ({"model": lambda x, p: x @ p}, "model: raised RuntimeError.*must broadcast"),
        ({"model": lambda x, p: 1.0}, "model: gave float"),
        ({"model": lambda x, p: p * x[:, :4]}, "model: gave shape"),
        ({"model": lambda x, p: p[..., :1] * x * 1j}, "complex numbers for real y"),
        ({"start": None}, "start: got None"),
        ({"start": np.ones((3, 4))}, "start: got shape"),
        ({"start": np.ones(4) * 1j}, "start: got complex"),
        ({"x": np.arange(7.0)}, "x: got shape"),
        ({"x": ()}, "x: got an empty tuple"),
        ({"sigma": np.ones(3)}, "sigma: got shape"),
        ({"mask": np.ones(50)}, "mask: got dtype"),
        ({"bounds": {"hight": (0, 1)}}, "bounds: got 'hight'"),
        ({"bounds": {0: (1, 1)}}, "expected lower < upper"),
        ({"bounds": (np.zeros(3), np.ones(3))}, "bounds: got shapes"),
        ({"fixed": [9]}, "fixed: got 9"),
        ({"fixed": [0, 1, 2, 3]}, "at least one that is free"),
        ({"tied": {0: 1, 1: 2}}, "no chain"),
        ({"loss": "huber"}, "loss: got 'huber'"),
        ({"loss_scale": 0}, "loss_scale: got 0"),
        ({"method": "newton"}, "method: got 'newton'"),
        ({"steps": -1}, "steps: got -1"),
        ({"starts": 0}, "starts: got 0"),
        ({"tol": -1.0}, "tol: got -1"),
        ({"schedule": "step"}, "schedule: got 'step'"),
        ({"names": ["a", "a", "b", "c"]}, "names that differ"),
        ({"threads": 0}, "threads: got 0"),
        ({"y": np.array(["a"])}, "expected numbers"),
        ({"y": np.ma.ones((2, 50))}, "masked array"),
    ],
)
def test_misuse(how: dict[str, Any], match: str) -> None:
    y, _, start = cases.curves(2)
    call = {"model": cases.peak, "x": cases.X, "y": y, "start": start, **how}
    with pytest.raises(ValueError, match=match):
        kernels.fit(**call)
