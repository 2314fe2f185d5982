"""The operators of torch: opcheck, compile, export, vmap, empty batches, and what a call costs."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels.gradients import hermitian_part

OPS = torch.ops.eigenstream
OPTIONS = ("lower", None, "auto", "probe", True, None, -1.0)
# compilers use parts of torch that warn of their own
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def stack(count: int, n: int, dtype: torch.dtype = torch.float64) -> Any:
    rng = np.random.default_rng(n)
    a = cases.gaussian(rng, (count, n, n), dtype.is_complex)
    return torch.from_numpy(cases.hermitian(a)).to(dtype)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_opcheck(dtype: torch.dtype, count: int) -> None:
    a = stack(count, 3, dtype)
    check: Any = torch.library.opcheck  # type: ignore[attr-defined]  # not in its stubs
    check(OPS.eigh, (a, *OPTIONS))
    check(OPS.eigvalsh, (a.clone().requires_grad_(), *OPTIONS))
    if not dtype.is_complex:  # opcheck's own loss depends on phases
        check(OPS.eigh, (a.clone().requires_grad_(), *OPTIONS))


def test_opcheck_of_the_others() -> None:
    check: Any = torch.library.opcheck  # type: ignore[attr-defined]  # not in its stubs
    a = stack(2, 3, torch.complex128)
    found = kernels.eigh(a)
    flag = torch.zeros(2, dtype=torch.bool)
    check(OPS.resolve, (found.values, found.values, hermitian_part(a), -1.0))
    check(OPS.guard, (a.clone().requires_grad_(), flag))
    check(OPS.refuse_second, (a, flag))
    check(OPS.proved, (a.clone().requires_grad_(), found.status))
    positive = (a @ a.mH + torch.eye(3)).requires_grad_()
    for scalar in (("log", 0.0, None), ("power", -0.5, 1e-3), ("exp", 0.0, None)):
        check(OPS.matrix_function, (positive.detach().requires_grad_(), "lower", *scalar))
    w, v = kernels.eigh(positive.detach())[:2]
    log = ("log", 0.0, None)
    check(OPS.frechet, (positive, w, v, a.clone().requires_grad_(), *log, True))
    check(OPS.frechet_second, (w, v, a, a, *log))


def test_compile_in_one_graph() -> None:
    def loss(x: Any) -> Any:
        found = kernels.eigh(hermitian_part(x))
        top = found.vectors[..., -1:]
        values = kernels.linalg.eigvalsh(x)
        root = kernels.sqrtm(x @ x.mH)
        return (top @ top.mH).abs()[..., 0, 1].sum() + (values**2).sum() + root.abs().pow(2).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for count in (4, 2):
        x, y = (stack(count, 3, torch.complex128).requires_grad_() for _ in range(2))
        first, second = compiled(x), loss(y)
        torch.testing.assert_close(first, second)
        first.backward()
        second.backward()
        torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(compiled(x.detach()), second.detach())
    bad = x.detach().clone()
    bad[0, 0, 0] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError, match="nonfinite"):
        compiled(bad)


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler")
def test_compile_with_the_default_backend() -> None:
    compiled = torch.compile(lambda x: kernels.eigh(x, subset=(0, 2)).values * 2, fullgraph=True)
    a = stack(3, 4)
    assert torch.equal(compiled(a), kernels.eigh(a).values[:, :2] * 2)


class Spectra(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        found = kernels.eigh(x, hermitian="average")
        alone = kernels.eigvalsh(x).values
        return found.values, found.vectors, found.residual, found.status, alone, kernels.expm(x)


def test_export_save_load_with_a_dynamic_batch() -> None:
    batch = torch.export.Dim("batch", min=0)
    program = torch.export.export(Spectra(), (stack(5, 3),), dynamic_shapes={"x": {0: batch}})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for count in (0, 1, 2, 9):
        a = stack(count, 3)
        for found, expected in zip(loaded(a), Spectra()(a), strict=True):
            assert found.dtype == expected.dtype and torch.equal(found, expected)


def test_vmap() -> None:
    a = stack(6, 3, torch.complex128)
    vmap = torch.func.vmap
    for dims in (0, 1):
        moved = a.movedim(0, dims)
        found = vmap(lambda x: kernels.eigh(x)[:2], in_dims=dims)(moved)
        for x, y in zip(found, kernels.eigh(a), strict=False):
            assert torch.equal(x, y)
    assert torch.equal(vmap(lambda x: kernels.eigvalsh(x).values)(a), kernels.eigvalsh(a).values)
    twice = vmap(vmap(lambda x: kernels.logm(x @ x.mH)))(a.reshape(2, 3, 3, 3))
    torch.testing.assert_close(twice.reshape(6, 3, 3), kernels.logm(a @ a.mH))
    b = stack(6, 3)
    gradient = vmap(torch.func.grad(lambda x: kernels.sqrtm(x @ x)[0, 1]))(b)
    assert torch.isfinite(gradient).all()
    assert torch.equal(vmap(lambda x: kernels.linalg.eigh(x)[0])(b), kernels.eigh(b).values)


def test_turned_bases_are_proved_again() -> None:
    """The gradient's path turns the basis of equal eigenvalues; the residual is that basis's."""
    a = torch.diag(torch.tensor([1.0, 1.0, 1.0, 2.0], dtype=torch.float64))
    plain, turned = kernels.eigh(a), kernels.eigh(a.clone().requires_grad_())
    assert torch.equal(plain.values, turned.values.detach())
    assert turned.vectors[:3, :3].abs().min() > 0.001
    residual = kernels.verify(a, turned.values.detach(), turned.vectors.detach())
    assert residual == turned.residual and residual < 10
    x = stack(50, 4).requires_grad_()
    assert torch.equal(kernels.eigh(x).vectors.detach(), kernels.eigh(x.detach()).vectors)


def test_dispatch_modes_and_fakes() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    a = stack(2, 3)
    traced = make_fx(lambda x: kernels.eigh(x).values + kernels.eigvalsh(x).values)(a)
    assert torch.equal(traced(a), kernels.eigh(a).values + kernels.eigvalsh(a).values)
    with FakeTensorMode():
        found = kernels.eigh(torch.empty((4, 3, 3), dtype=torch.complex64))
        assert found.values.dtype == torch.float32 and found.vectors.shape == (4, 3, 3)
        assert found.status.dtype == torch.uint8
        with pytest.raises(ValueError, match=r"expected \(\.\.\., n, n\)"):
            kernels.eigh(torch.empty((4, 3, 2)))


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of one call: the best of many short runs."""
    best = float("inf")
    for _ in range(100):
        start = time.thread_time()
        for _ in range(10):
            call()
        best = min(best, (time.thread_time() - start) / 10)
    return best


def test_overhead_of_a_call() -> None:
    """Aims: 30 microseconds plain, 100 as an operator; three times that on a busy machine."""
    b = torch.tensor([[2.0, 1, 0], [1, 3, 1], [0, 1, 5]], dtype=torch.float64)
    a, g = b.numpy(), b.clone().requires_grad_()
    assert seconds(lambda: kernels.eigh(a)) < 90e-6
    assert seconds(lambda: kernels.eigh(b)) < 120e-6
    assert seconds(lambda: kernels.eigh(g)) < 300e-6
    assert seconds(lambda: OPS.eigh(b, *OPTIONS)) < 300e-6
