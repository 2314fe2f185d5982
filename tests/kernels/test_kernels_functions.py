"""Functions of matrices: mpmath, scipy, and derivatives by numbers, at equal eigenvalues too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels_cases as cases
import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck, gradgradcheck

import kernels
from kernels.divided import Scalar
from kernels.gradients import hermitian_part

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "expm": (kernels.expm, mpmath.exp),
    "logm": (kernels.logm, mpmath.log),
    "sqrtm": (kernels.sqrtm, mpmath.sqrt),
    "p=-1/4": (lambda a: kernels.matrix_power(a, -0.25), lambda x: x ** mpmath.mpf(-0.25)),
    "p=1.5": (lambda a: kernels.matrix_power(a, 1.5), lambda x: x ** mpmath.mpf(1.5)),
    "p=3": (lambda a: kernels.matrix_power(a, 3), lambda x: x**3),
    "p=-2": (lambda a: kernels.matrix_power(a, -2), lambda x: x**-2),
}


def positive(n: int, is_complex: bool, *batch: int) -> Any:
    b = cases.gaussian(np.random.default_rng(n), (*batch, n, n), is_complex)
    return cases.hermitian(b @ b.conj().swapaxes(-1, -2)) / n + 0.5 * np.eye(n)


def degenerate(is_complex: bool) -> Any:
    q = np.linalg.qr(cases.gaussian(np.random.default_rng(5), (3, 3), is_complex))[0]
    return cases.hermitian(q @ np.diag([1.5, 1.5, 0.75]) @ q.conj().T)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_fifty_digits(name: str, dtype: str) -> None:
    a = positive(4, dtype.startswith("c")).astype(dtype)
    a = cases.hermitian(a)
    ours, exact = FUNCTIONS[name]
    with mpmath.workdps(50):
        w, v = mpmath.eighe(mpmath.matrix(a.astype(complex).tolist()))
        f = v * mpmath.diag([exact(x) for x in w]) * v.H
        reference = np.array(f.tolist(), dtype=complex)
    found = ours(a)
    assert found.dtype == dtype and isinstance(found, np.ndarray)
    scale = np.abs(reference).max() * np.linalg.cond(a)
    assert np.abs(found - reference).max() < 20 * np.finfo(dtype).eps * scale
    assert ours(torch.from_numpy(a)).numpy().tobytes() == found.tobytes()


def test_scipy_and_whole_powers_of_any_matrix() -> None:
    a = cases.Case(cases.random, 5, "complex128").build()
    for p in (0, 1, 2, 7, -1, -3):
        expected = np.linalg.matrix_power(a, p)
        found = kernels.matrix_power(a, p)
        assert np.abs(found - expected).max() < 1e-8 * np.abs(expected).max()
    assert np.abs(kernels.expm(a[0]) - scipy.linalg.expm(a[0])).max() < 1e-13
    upper = np.triu(a) + 5 * np.tril(np.ones((5, 5)), -1)
    assert np.abs(kernels.expm(upper, hermitian="upper") - kernels.expm(a)).max() < 1e-13


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("at", ["apart", "degenerate"])
def test_derivatives(name: str, is_complex: bool, at: str) -> None:
    raw = degenerate(is_complex) if at == "degenerate" else positive(3, is_complex)
    a = torch.from_numpy(raw).requires_grad_()

    def f(x: Any) -> Any:
        return FUNCTIONS[name][0](hermitian_part(x))

    assert gradcheck(f, (a,), check_forward_ad=True, check_batched_grad=True)
    if not is_complex or name in ("logm", "p=-1/4"):
        assert gradgradcheck(f, (a,))


def test_hessian_by_forward_over_reverse() -> None:
    a = torch.from_numpy(degenerate(False))

    def f(x: Any) -> Any:
        return kernels.logm(hermitian_part(x))[0, 1]

    forward = torch.func.hessian(f)(a)
    reverse = torch.func.jacrev(torch.func.jacrev(f))(a)
    torch.testing.assert_close(forward, reverse)
    assert forward.abs().max() > 0.01


@pytest.mark.parametrize("name", ["exp", "log", "power"])
@pytest.mark.parametrize("p", [0.5, -0.25, 1.5, 3.0, -2.0])
def test_divided_differences_to_rounding(name: str, p: float) -> None:
    scalar = Scalar(name, p)
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 3, (60, 1))
    spread = 10.0 ** rng.uniform(-17, 0.3, (60, 1)) * rng.uniform(0, 1, (60, 3))
    x = torch.from_numpy(np.concatenate([base + spread, [[1, 1, 1], [2, 2, 1e-3]]]))
    first, second = scalar.first(x[:, 0], x[:, 1]), scalar.second(x[:, 0], x[:, 1], x[:, 2])
    exact = {"exp": mpmath.exp, "log": mpmath.log, "power": lambda t: t ** mpmath.mpf(p)}[name]
    for row, one, two in zip(x.tolist(), first.tolist(), second.tolist(), strict=True):
        with mpmath.workdps(120):
            # equal points drawn apart by 1e-30: three of them, in 120 digits
            t = [mpmath.mpf(y) + mpmath.mpf(10) ** -30 * k for k, y in enumerate(row)]
            f = [exact(y) for y in t]
            ab, bc = (f[0] - f[1]) / (t[0] - t[1]), (f[1] - f[2]) / (t[1] - t[2])
            abc = (ab - bc) / (t[0] - t[2])
        assert abs(one - float(ab)) < 1e-14 * abs(float(ab))
        assert abs(two - float(abc)) < 3e-13 * abs(float(abc)) + (1e-300 if name != "power" else 0)


def test_clamp_rule() -> None:
    a = np.diag([-0.5, 1e-9, 0.3, 2.0])
    found = kernels.matrix_power(a, -0.5, eps=0.1)
    assert np.allclose(np.diag(found), np.array([0.2, 0.2, 0.3, 2.0]) ** -0.5)
    assert np.allclose(np.diag(kernels.logm(a, 0.1)), np.log([0.2, 0.2, 0.3, 2.0]))
    assert np.allclose(np.diag(kernels.sqrtm(a, 0.0)), np.sqrt([0, 1e-9, 0.3, 2.0]))
    # without eps: rounding counts as zero, more is outside of the domain
    assert np.isnan(kernels.sqrtm(a)).all() and np.isnan(kernels.logm(a)).all()
    rounding = np.diag([-1e-16, 1.0])
    assert (np.diag(kernels.sqrtm(rounding)) == [0, 1]).all()
    assert np.isnan(kernels.logm(rounding)).all()
    assert np.isnan(kernels.matrix_power(rounding, -1)).all()
    assert np.isfinite(kernels.matrix_power(a, -1)).all()
    assert np.isnan(kernels.logm(np.zeros((2, 2)), 0.1)).all()


@pytest.mark.parametrize("p", [-0.5, 0.5, 2.0])
@pytest.mark.parametrize("is_complex", [False, True])
def test_clamped_gradient_moves_with_the_floor(p: float, is_complex: bool) -> None:
    rng = np.random.default_rng(1)
    a = torch.from_numpy(cases.hermitian(cases.gaussian(rng, (3, 3), is_complex)))

    def f(x: Any) -> Any:
        return kernels.matrix_power(hermitian_part(x), p, eps=0.2)

    assert gradcheck(f, (a.requires_grad_(),), check_forward_ad=True)
    (first,) = torch.autograd.grad(f(a).abs().sum(), a, create_graph=True)
    with pytest.raises(ValueError, match="second derivative"):
        first.abs().sum().backward()


def test_a_bad_matrix_keeps_to_itself() -> None:
    raw = positive(3, True, 4)
    raw[1, 2, 0], raw[2] = np.nan, -raw[2]
    x, y = (torch.from_numpy(z).requires_grad_() for z in (raw, raw[[0, 3]].copy()))
    found, alone = kernels.logm(x), kernels.logm(y)
    assert found[1:3].isnan().all()
    torch.testing.assert_close(found[[0, 3]], alone)
    found[[0, 3]].abs().pow(2).sum().backward()
    alone.abs().pow(2).sum().backward()
    assert x.grad is not None and y.grad is not None
    torch.testing.assert_close(x.grad[[0, 3]], y.grad)
    assert (x.grad[1:3] == 0).all()
    z = torch.from_numpy(raw).requires_grad_()
    kernels.logm(z).abs().sum().backward()
    assert z.grad is not None and z.grad[1:3].isnan().all() and not z.grad[0].isnan().any()


def test_kinds_and_misuse() -> None:
    a = positive(3, True, 2)
    tensor = torch.from_numpy(a)
    plain = kernels.sqrtm(a)
    for form in (np.asfortranarray(a), a.astype(">c16"), tensor.conj().resolve_conj().conj()):
        assert np.abs(np.asarray(kernels.sqrtm(form)) - plain).max() < 1e-15
    root = kernels.sqrtm(tensor.mT.requires_grad_())
    assert root.requires_grad
    assert np.abs((root @ root).detach().numpy() - a.swapaxes(1, 2)).max() < 1e-14
    assert kernels.expm(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    for p in ("2", np.inf, np.nan, True):
        with pytest.raises(ValueError, match="matrix_power: got p"):
            kernels.matrix_power(a, p)  # type: ignore[arg-type]
    for eps in (-1.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="eps: got"):
            kernels.logm(a, eps)
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        kernels.expm(np.zeros((2, 3)))
