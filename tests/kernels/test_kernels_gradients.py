"""Derivatives of eigh: against torch, numbers, and closed forms at equal eigenvalues."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import kernels
from kernels.gradients import hermitian_part

DOUBLE = [torch.float64, torch.complex128]
SPECTRA = [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0 + 3e-13], [-1.0, 2.0, 2.0]]
# forward mode and compilers use parts of torch that warn of their own
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def matrix(n: int, dtype: torch.dtype, *batch: int) -> Any:
    rng = np.random.default_rng(n)
    a = cases.gaussian(rng, (*batch, n, n), dtype.is_complex)
    return torch.from_numpy(cases.hermitian(a)).to(dtype)


def with_spectrum(values: Any, dtype: torch.dtype, turned: bool = True) -> Any:
    q = torch.linalg.qr(matrix(len(values), dtype))[0]
    if not turned:
        q = torch.eye(len(values), dtype=dtype)
    diagonal = torch.tensor(values, dtype=torch.float64).to(dtype)
    return hermitian_part(q @ torch.diag(diagonal) @ q.mH)


def moduli_and_projector(a: Any) -> Any:
    found = kernels.eigh(a, hermitian="average")
    v = found.vectors
    projector = v[..., :2] @ v[..., :2].mH
    return found.values, v.abs() ** 2, projector


@pytest.mark.parametrize("dtype", DOUBLE)
def test_first_and_second_derivatives_by_numbers(dtype: torch.dtype) -> None:
    a = matrix(3, dtype, 2).requires_grad_()
    assert gradcheck(moduli_and_projector, (a,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(moduli_and_projector, (a[:1].detach().requires_grad_(),))
    assert gradcheck(lambda x: kernels.eigvalsh(hermitian_part(x)).values, (a,))


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("mode", ["lower", "upper", "strict", "average"])
def test_gradient_is_torchs_and_symmetric(mode: Any, dtype: torch.dtype) -> None:
    """Whichever triangle is read."""
    a, weight = matrix(5, dtype, 3), matrix(5, torch.float64)
    ours, theirs = a.clone().requires_grad_(), a.clone().requires_grad_()
    found, reference = kernels.eigh(ours, hermitian=mode), torch.linalg.eigh(theirs)
    for w, v in (found[:2], reference):
        ((v.abs() ** 2 * weight).sum() + (w**3).sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad, ours.grad.mH)


def test_single_precision_subset_and_values_alone() -> None:
    for dtype in (torch.float32, torch.complex64):
        a = matrix(4, dtype, 2).requires_grad_()
        b = a.detach().clone().requires_grad_()
        part = kernels.eigh(a, subset=(-2, None))
        whole = kernels.eigh(b)
        assert torch.equal(part.values, whole.values[:, 2:])
        (part.values.sum() + (part.vectors.abs() ** 4).sum()).backward()
        (whole.values[:, 2:].sum() + (whole.vectors[:, :, 2:].abs() ** 4).sum()).backward()
        assert a.grad is not None and a.grad.dtype == dtype and torch.equal(a.grad, b.grad)
    values = kernels.eigvalsh(a, subset=(0, 1)).values
    assert kernels.eigvalsh(a).vectors is None and values.requires_grad
    assert not kernels.eigh(a).residual.requires_grad


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("values", SPECTRA, ids=str)
def test_functions_of_degenerate_matrices(values: Any, dtype: torch.dtype, turned: bool) -> None:
    """f(A) = V f(l) V^H put together by hand: the derivative of A^3 + 2 A in any direction."""
    a = with_spectrum(values, dtype, turned) + 0.5 * torch.eye(3, dtype=dtype)
    for weight in (matrix(3, dtype), torch.ones(3, 3, dtype=dtype)):
        x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
        w, v = kernels.eigh(x)[:2]
        by_hand = (v * (w**3 + 2 * w)[..., None, :]) @ v.mH
        (by_hand * weight.conj()).sum().real.backward()
        ((y @ y @ y + 2 * y) * weight.conj()).sum().real.backward()
        assert x.grad is not None and y.grad is not None
        expected = hermitian_part(y.grad)
        assert (x.grad - expected).abs().max() < 1e-7 * expected.abs().max()


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("turned", [True, False])
def test_projectors_and_sums_at_degeneracy(dtype: torch.dtype, turned: bool) -> None:
    a, weight = with_spectrum([1.0, 1.0, 1.0, 2.5], dtype, turned), matrix(4, dtype)

    def loss(w: Any, v: Any) -> Any:
        projector = v[..., :3] @ v[..., :3].mH
        return (projector * weight.conj()).sum().real + 2 * w[..., :3].sum() + w[..., 3] ** 2

    x = a.clone().requires_grad_()
    loss(*kernels.eigh(x)[:2]).backward()
    top = torch.linalg.eigh(a)[1][:, 3:]
    p = top @ top.mH
    q = torch.eye(4, dtype=dtype) - p
    # d tr(W Q) = -2 Re tr(W P dA (a - l)^+), and the sums
    expected = -hermitian_part(p @ weight @ q + q @ weight @ p) / 1.5 + 2 * q + 5 * p
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected, rtol=1e-9, atol=1e-9)
    # forward mode: the same numbers
    direction = matrix(4, dtype)
    tangent = torch.func.jvp(lambda y: loss(*kernels.eigh(y)[:2]), (a,), (direction,))[1]
    slope = (expected.conj() * direction).sum().real
    torch.testing.assert_close(tangent, slope, rtol=1e-9, atol=1e-9)


def test_loss_that_is_not_invariant() -> None:
    a = with_spectrum([1.0, 1.0, 2.0], torch.float64)
    for loss in (lambda e: e.vectors[0, 0], lambda e: (e.vectors[:, 0] ** 4).sum(),
                 lambda e: e.values[0] * (e.vectors[0, 1] ** 2)):  # fmt: skip
        x = a.clone().requires_grad_()
        with pytest.raises(ValueError, match=r"basis of a degenerate cluster.*broaden"):
            loss(kernels.eigh(x)).backward()
    stack = torch.stack([matrix(3, torch.float64), a]).requires_grad_()
    with pytest.raises(ValueError, match=r"matrix \(1,\)"):
        kernels.eigh(stack).vectors[..., 0, 0].sum().backward()
    # eigenvalues that differ by more than rounding are told apart
    x = with_spectrum([1.0, 1.0 + 1e-9, 2.0], torch.float64).requires_grad_()
    (kernels.eigh(x).vectors[0, 0] ** 2).backward()
    assert x.grad is not None and 1e6 < x.grad.abs().max() < 1e10


def test_broadening_is_as_documented() -> None:
    a, width = with_spectrum([1.0, 1.0, 2.0], torch.float64), 1e-3
    for option, w in ((width, width), ("broaden", np.finfo(float).eps ** (1 / 3))):
        x = a.clone().requires_grad_()
        found = kernels.eigh(x, degenerate=option)
        found.vectors[0, 0].backward()
        values, v = found.values.detach().numpy(), found.vectors.detach().numpy()
        gap = values[None, :] - values[:, None]
        cotangent = np.zeros((3, 3))
        cotangent[0, 0] = 1
        m = v.T @ cotangent
        f = gap / (gap**2 + (w * np.abs(values).max()) ** 2)
        expected = v @ (f * (m - m.T) / 2) @ v.T
        assert x.grad is not None
        assert np.abs(x.grad.numpy() - (expected + expected.T) / 2).max() < 1e-9
    for wrong in ("ignore", 0.0, -1.0):
        with pytest.raises(ValueError, match="degenerate: got"):
            kernels.eigh(a, degenerate=wrong)  # type: ignore[arg-type]


def test_phases_must_not_count() -> None:
    a = matrix(3, torch.complex128).requires_grad_()
    with pytest.raises(ValueError, match=r"phases of complex eigenvectors.*fix_gauge"):
        kernels.eigh(a).vectors.real.sum().backward()

    def fixed(x: Any) -> Any:
        return kernels.fix_gauge(kernels.eigh(hermitian_part(x)).vectors)

    assert gradcheck(fixed, (a.detach().clone().requires_grad_(),))


def test_a_bad_matrix_keeps_to_itself() -> None:
    a = matrix(3, torch.complex128, 4)
    a[1, 2, 0] = torch.nan
    x, y = a.clone().requires_grad_(), a[[0, 2, 3]].clone().requires_grad_()
    found = kernels.eigh(x)
    good = found.status == kernels.Status.ok
    (found.values[good].sum() + found.vectors[good].abs().pow(4).sum()).backward()
    others = kernels.eigh(y)
    (others.values.sum() + others.vectors.abs().pow(4).sum()).backward()
    assert x.grad is not None and y.grad is not None
    torch.testing.assert_close(x.grad[[0, 2, 3]], y.grad)
    assert (x.grad[1] == 0).all()
    z = a.clone().requires_grad_()
    kernels.eigh(z).values.sum().backward()
    assert z.grad is not None and z.grad[1].isnan().all() and not z.grad[[0, 2, 3]].isnan().any()


def test_second_derivative_at_degeneracy_is_right_or_refused() -> None:
    a, direction = with_spectrum([1.0, 1.0, 2.0], torch.float64), matrix(3, torch.float64)

    def second(loss: Any) -> Any:
        x = a.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(kernels.eigh(x)), x, create_graph=True)
        return torch.autograd.grad((first * direction).sum(), x)[0]

    cube = second(lambda e: (e.values**3).sum())  # 3 (A E + E A)
    torch.testing.assert_close(cube, 3 * (a @ direction + direction @ a), rtol=1e-7, atol=1e-7)
    with pytest.raises(ValueError, match="second derivative was asked"):
        second(lambda e: (e.vectors[:, :2] @ e.vectors[:, :2].mT)[0, 1] ** 2)
    alone = second(lambda e: e.vectors[0, 2] ** 2 + e.vectors[1, 2] ** 2)
    assert torch.isfinite(alone).all()


def test_function_transforms_of_first_and_second_order() -> None:
    a = matrix(3, torch.float64, 4)

    def ours(x: Any) -> Any:
        v = kernels.eigh(hermitian_part(x)).vectors
        return (v[..., :1] @ v[..., :1].mH)[..., 0, 1]

    def theirs(x: Any) -> Any:
        v = torch.linalg.eigh(hermitian_part(x))[1]
        return (v[..., :1] @ v[..., :1].mH)[..., 0, 1]

    f = torch.func
    for transform in (f.jacfwd, f.jacrev, f.hessian, lambda g: f.jacrev(f.jacfwd(g)),
                      lambda g: f.jacrev(f.jacrev(g))):  # fmt: skip
        torch.testing.assert_close(transform(ours)(a[0]), f.hessian(theirs)(a[0])
                                   if transform not in (f.jacfwd, f.jacrev)
                                   else f.jacrev(theirs)(a[0]))  # fmt: skip
    torch.testing.assert_close(f.vmap(f.grad(ours))(a), f.vmap(f.grad(theirs))(a))
    with pytest.raises(NotImplementedError, match="forward mode over forward mode"):
        f.jacfwd(f.jacfwd(ours))(a[0])


def test_lazy_tensors_and_kinds() -> None:
    a = matrix(3, torch.complex128, 2)
    for view in (
        lambda x: x.conj(),
        lambda x: x.mH,
        lambda x: x.mT,
        lambda x: x.expand(2, 2, 3, 3),
    ):
        x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
        assert kernels.eigh(view(x)).values.shape == kernels.eigh(view(x).detach()).values.shape
        (kernels.eigh(view(x)).vectors.abs() ** 4).sum().backward()
        (torch.linalg.eigh(view(y))[1].abs() ** 4).sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-8, atol=1e-8)
    with torch.no_grad():
        assert not kernels.eigh(x).values.requires_grad
    assert isinstance(kernels.verify(x, *kernels.eigh(x)[:2]), torch.Tensor)
    empty = torch.zeros((0, 3, 3), requires_grad=True)
    kernels.eigh(empty).vectors.sum().backward()
    assert empty.grad is not None and empty.grad.shape == (0, 3, 3)
    parameter = torch.nn.Parameter(a.clone())
    assert kernels.eigh(parameter).values.requires_grad


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_drop_in_is_differentiable(uplo: Any) -> None:
    a = matrix(4, torch.complex128, 2)
    x, y = a.clone().requires_grad_(), a.clone().requires_grad_()
    for z, linalg in ((x, kernels.linalg), (y, torch.linalg)):
        pair = linalg.eigh(z, uplo)  # type: ignore[attr-defined]
        values = linalg.eigvalsh(z, uplo)  # type: ignore[attr-defined]
        (pair.eigenvectors.abs().pow(4).sum() + (values**2).sum()).backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-9, atol=1e-9)
    with pytest.raises(torch.linalg.LinAlgError, match="nonfinite"):
        kernels.linalg.eigvalsh(torch.full((2, 2), torch.nan, requires_grad=True))
    with pytest.raises(ValueError, match="UPLO"):
        kernels.linalg.eigvalsh(a, "l")  # type: ignore[arg-type]
