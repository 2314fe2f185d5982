"""Models by name, their guesses, the Faddeeva function, exact derivatives, noise of covariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import wofz

import kernels
from kernels import models
from kernels.fits import jacobian

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
TRUTH: dict[str, tuple[float, ...]] = {
    "gaussian": (3, 4.2, 0.7), "lorentzian": (3, 4.2, 0.7), "voigt": (3, 4.2, 0.4, 0.4),
    "pseudo_voigt": (3, 4.2, 0.7, 0.4), "damped_oscillator": (1.5, 4.2, 0.1),
    "exponential": (3, 2.5), "powerlaw": (3, -1.3), "constant": (2.0,), "linear": (-0.5, 2.0),
    "polynomial3": (1, -2, 0.5, 0.1),
    "gaussian + lorentzian + linear": (3, 2.5, 0.4, 4, 7, 0.6, 0.1, 1),
    "gaussian + gaussian + constant": (3, 3, 0.4, 5, 7, 0.8, 0.5),
    "exponential + constant": (3, 2, 1),
    "voigt + constant": (-3, 4.2, 0.4, 0.4, 5),
}  # fmt: skip


def tile(count: int, x: Any) -> Any:
    return torch.from_numpy(np.tile(x, (count, 1)).T.copy()).mT


@pytest.mark.parametrize("name", TRUTH)
def test_found_again_from_the_guess(name: str) -> None:
    model, rng = models.find(name), np.random.default_rng(1)
    true = np.array(TRUTH[name], float) * (1 + 0.05 * rng.uniform(-1, 1, (50, len(TRUTH[name]))))
    for a, b in model.tied.items():
        true[:, model.names.index(a)] = true[:, model.names.index(b)]
    x = np.linspace(0.5, 10, 120)
    clean = model.function(torch.from_numpy(x), torch.from_numpy(true)).numpy()
    y = clean + 0.01 * np.abs(clean).max() * rng.standard_normal(clean.shape)
    found = kernels.fit(name, x, y)
    assert found.converged.mean() > 0.95
    pulls = ((found.params - true) / found.stderr)[found.converged]
    assert np.median(np.abs(pulls)) < 1 and np.quantile(np.abs(pulls), 0.95) < 4


@pytest.mark.parametrize("name", [*models.NAMES, "gaussian + voigt + linear"])
def test_derivatives_are_exact_and_recorded(name: str) -> None:
    model = models.find(name)
    p = len(model.names)
    x = tile(64, np.linspace(0.1, 5, 21))
    params = torch.rand(p, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mT
    check_derivatives(model.function, x, params + 0.5, "recorded")


def check_derivatives(function: Any, x: Any, params: Any, route: str) -> None:
    p = params.shape[-1]
    found = jacobian.differentiate(function, x, params, range(p), range(p))
    assert found.route == route
    value, slopes = found.slopes(x, params)
    exact, expected = jacobian._push(function, range(p), range(p))(x, params)
    assert torch.equal(value.expand(exact.shape), exact)
    for slope, other in zip(slopes, expected, strict=True):
        ours, theirs = (multiply_out(s, exact) for s in (slope, other))
        scale = theirs.abs().max().clamp(min=1)
        assert (ours - theirs).abs().max() < 1e-12 * scale


def multiply_out(slope: Any, like: Any) -> Any:
    if slope is None:
        return torch.zeros_like(like)
    out = torch.full_like(like, slope[0])
    for part in slope[1:]:
        out = out if part is None else out * part
    return out


FUNCTIONS: dict[str, Any] = {
    "unbind": lambda x, p: p.unbind(-1)[0][..., None] * torch.sin(p.unbind(-1)[1][..., None] * x),
    "where": lambda x, p: torch.where(x > 2, p[..., 0:1] * x, p[..., 1:2] + x**2),
    "where of numbers": lambda x, p: torch.where(x > 2, p[..., 0:1], 0.3 * p[..., 1:2]),
    "powers": lambda x, p: x ** p[..., 0:1] + p[..., 1:2] ** 3 + 2 ** p[..., 0:1],
    "ratios": lambda x, p: (p[..., 0:1] + x) / (p[..., 1:2] * x + 1) + 1 / p[..., 0:1],
    "hyperbolic": lambda x, p: torch.tanh(p[..., 0:1] * x) + torch.cosh(p[..., 1:2]) / (1 + x),
    "inverse": lambda x, p: torch.atan(p[..., 0:1] * x) + torch.atan2(p[..., 1:2], x),
    "errors": lambda x, p: torch.erf(p[..., 0:1] * x) + torch.erfc(p[..., 1:2] - x),
    "logs": lambda x, p: torch.log1p(p[..., 0:1] * x) + torch.expm1(-p[..., 1:2] * x) - 1,
    "roots": lambda x, p: torch.sqrt(p[..., 0:1] + x) * torch.rsqrt(p[..., 1:2] + x),
    "sums": lambda x, p: p[..., 0:1] * x / (p[..., 0:1] * x + p[..., 1:2]).sum(-1, keepdim=True),
    "mean": lambda x, p: x * p[..., 0:1] - (p[..., 1:2] * x).mean(-1, keepdim=True),
    "sigmoid": lambda x, p: torch.sigmoid((x - p[..., 0:1]) / p[..., 1:2]).square(),
    "signs": lambda x, p: (x - p[..., 0:1]).abs() + torch.reciprocal(p[..., 1:2]),
    "no slope": lambda x, p: p[..., 0:1] * x + 0 * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_functions(name: str) -> None:
    x = tile(64, np.linspace(0.1, 5, 21))
    params = torch.rand(64, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    check_derivatives(FUNCTIONS[name], x, params + 0.5, "recorded")


def test_what_cannot_be_recorded_is_differentiated_all_the_same() -> None:
    def looks(x: Any, p: Any) -> Any:
        return p[..., 0:1] * torch.logaddexp(x, p[..., 1:2]) * (2 if float(x.sum()) > 0 else 1)

    def inplace(x: Any, p: Any) -> Any:
        out = p[..., 0:1] * x
        out += p[..., 1:2]
        return out

    x = tile(64, np.linspace(0.1, 5, 21))
    params = torch.rand(64, 2, dtype=torch.float64) + 0.5
    for function in (looks, inplace):
        check_derivatives(function, x, params, "forward mode")
        y = function(x, params).contiguous().numpy()
        found = kernels.fit(function, x[0].numpy(), y, params.numpy() * 1.2)
        assert found.converged.all() and np.allclose(found.params, params.numpy())


@given(st.floats(-1e6, 1e6), st.floats(-4, 1e6))
def test_faddeeva(x: float, y: float) -> None:
    re, im = models.faddeeva(torch.tensor([x] * 64, dtype=torch.float64), torch.tensor([y] * 64))
    exact = wofz(complex(x, float(torch.tensor(y))))
    found = complex(re[0], im[0])
    assert abs(found - exact) <= 2e-13 * abs(exact) + 1e-12 * abs(np.exp(min(y * y - x * x, 700.0)))


def test_faddeeva_in_the_upper_half_plane() -> None:
    rng = np.random.default_rng(0)
    z = 10 ** rng.uniform(-6, 4, 6400) * np.exp(1j * rng.uniform(0, np.pi, 6400))
    re, im = models.faddeeva(torch.from_numpy(z.real.copy()), torch.from_numpy(z.imag.copy()))
    assert (np.abs(re.numpy() + 1j * im.numpy() - wofz(z)) / np.abs(wofz(z))).max() < 1e-13
    x, y = (torch.rand(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(models.faddeeva, (x, y), check_forward_ad=True)
    torch.library.opcheck(torch.ops.eigenstream.faddeeva.default, (x.detach(), y.detach()))


def wishart(batch: int, n: int, samples: int, variance: float, rank: int) -> Any:
    rng = np.random.default_rng(n)
    data = np.sqrt(variance) * rng.standard_normal((batch, n, samples))
    data[:, :rank] *= np.sqrt(20 + np.arange(rank))[:, None]
    return kernels.eigvalsh(data @ data.swapaxes(-1, -2) / samples).values


@pytest.mark.parametrize(("n", "samples"), [(64, 400), (128, 1000), (100, 60)])
def test_noise_of_covariances(n: int, samples: int) -> None:
    values = wishart(40, n, samples, 2.5, 3)
    found = kernels.marchenko_pastur(values, samples)
    assert abs(np.mean(found.variance) / 2.5 - 1) < 0.01 and (found.rank == 3).mean() > 0.9
    root = np.sqrt((n - 3) / (samples - 3))
    three = found.rank == 3
    assert np.allclose(found.upper[three], found.variance[three] * (1 + root) ** 2)
    if samples > n:
        fitted = kernels.marchenko_pastur(values)
        assert abs(np.median(fitted.ratio) * samples / n - 1) < 0.1
        assert abs(np.median(fitted.variance) / 2.5 - 1) < 0.02 and np.median(fitted.rank) == 3
    values[0, 3] = np.nan
    alone = kernels.marchenko_pastur(values, samples)
    assert alone.rank[0] == -1 and np.isnan(alone.variance[0])
    assert (alone.variance[1:] == found.variance[1:]).all()
    with pytest.raises(ValueError, match="samples: got 0"):
        kernels.marchenko_pastur(values, 0)
