"""The phase of eigenvectors, and the basis of degenerate clusters."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kernels


@st.composite
def columns(draw: Any) -> Any:
    dtype = np.dtype(draw(st.sampled_from(cases.DTYPES)))
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    width = 32 if dtype.char in "fF" else 64
    grid = st.sampled_from([0.0, -0.0, 0.5, -0.5, 0.25])
    parts = st.one_of(grid, st.floats(-1, 1, width=width), st.floats(width=width))
    real = [hnp.arrays(np.finfo(dtype).dtype, (n, m), elements=parts) for _ in range(2)]
    re, im = draw(real[0]), draw(real[1])
    if dtype.kind != "c":
        return re
    v = re.astype(dtype)
    v.imag = im
    return v


@given(columns())
@settings(max_examples=400, deadline=None)
def test_gauge(v: Any) -> None:
    fixed = kernels.fix_gauge(v)
    assert fixed.dtype == v.dtype and fixed.shape == v.shape
    assert kernels.fix_gauge(fixed).tobytes() == fixed.tobytes()
    eps = np.finfo(v.dtype).eps
    for before, after in zip(v.T, fixed.T, strict=True):
        with np.errstate(over="ignore"):
            size = np.abs(before.astype(np.result_type(v.dtype, np.float64)))
        peak = size.max(initial=0)
        if not np.isfinite(before).all() or peak == 0 or not np.isfinite(peak):
            assert before.tobytes() == after.tobytes()
            continue
        if peak < 1e3 * np.finfo(v.dtype).tiny:
            continue  # too small for unit moduli
        tied = size >= peak * (1 - np.sqrt(eps) - 20 * eps)
        assert any(x.real > 0 and x.imag == 0 for x in after[tied])
        assert np.abs(np.abs(after) - size).max() <= 8 * eps * peak


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_phase_of_the_input_does_not_matter(dtype: str) -> None:
    rng = np.random.default_rng(2)
    c = dtype.startswith("c")
    v = np.linalg.qr(cases.gaussian(rng, (200, 6, 6), c))[0].astype(dtype)
    turn = np.exp(2j * np.pi * rng.random((200, 1, 6))) if c else rng.choice([-1, 1], (200, 1, 6))
    apart = kernels.fix_gauge(v) - kernels.fix_gauge((v * turn).astype(dtype))
    assert np.abs(apart).max() < 10 * np.finfo(dtype).eps


def test_rounding_does_not_choose_between_ties() -> None:
    v = np.array([[-0.5], [0.5], [-0.5], [0.5]])
    for noise in np.random.default_rng(0).standard_normal((50, 4, 1)) * 1e-15:
        fixed = kernels.fix_gauge(v + noise)
        assert fixed[0, 0] > 0 and fixed[1, 0] < 0


def test_kinds_and_misuse() -> None:
    v = np.linalg.qr(np.random.default_rng(1).standard_normal((2, 3, 4, 4)) + 0j)[0]
    given = v.copy()
    fixed = kernels.fix_gauge(torch.from_numpy(v))
    assert isinstance(fixed, torch.Tensor)
    assert fixed.numpy().tobytes() == kernels.fix_gauge(v, gauge="phase").tobytes()
    assert (v == given).all()
    part = kernels.fix_gauge(v[..., 1:3])
    assert part.tobytes() == np.ascontiguousarray(fixed.numpy()[..., 1:3]).tobytes()
    with pytest.raises(ValueError, match="gauge: got 'parallel'"):
        kernels.fix_gauge(v, gauge="parallel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        kernels.fix_gauge(np.zeros((2, 2), int))


@st.composite
def clusters(draw: Any) -> tuple[Any, Any, Any]:
    """(vectors, values, a random unitary inside each cluster)."""
    dtype = draw(st.sampled_from(cases.DTYPES))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = sum(sizes) + draw(st.integers(0, 3))
    c = dtype.startswith("c")
    v = np.linalg.qr(cases.gaussian(rng, (n, n), c))[0]
    if draw(st.booleans()):  # a span with symmetry: rows of equal weight
        f = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
        v = f if c else np.linalg.qr(np.round(4 * v))[0] if n < 3 else np.eye(n) - 2 / n
    mix, values, at = np.zeros((sum(sizes),) * 2, v.dtype), [], 0
    for level, size in enumerate(sizes):
        mix[at : at + size, at : at + size] = np.linalg.qr(cases.gaussian(rng, (size, size), c))[0]
        values += [float(level)] * size
        at += size
    return v[:, :at].astype(dtype), np.array(values, np.dtype(dtype).char.lower()), mix


@given(clusters())
@settings(max_examples=200, deadline=None)
def test_cluster(case: Any) -> None:
    v, w, mix = case
    eps = np.finfo(v.dtype).eps
    fixed = kernels.fix_gauge(v, w, "cluster")
    assert kernels.fix_gauge(fixed, w, "cluster").tobytes() == fixed.tobytes()
    mixed = kernels.fix_gauge((v @ mix).astype(v.dtype), w, "cluster")
    assert np.abs(mixed - fixed).max() <= (1e-10 if eps < 1e-10 else 1e-4)
    gram = fixed.conj().T @ fixed - np.eye(v.shape[1])
    assert np.abs(gram).max() < 20 * len(v) * eps
    for level in np.unique(w):
        now, before = fixed[:, w == level], v[:, w == level]
        assert np.abs(now @ now.conj().T - before @ before.conj().T).max() < 20 * len(v) * eps
        if now.shape[1] == 1:
            assert np.abs(now - kernels.fix_gauge(before)).max() == 0


def test_cluster_of_solved_matrices_is_the_same_by_another_solver() -> None:
    rng = np.random.default_rng(4)
    for dtype in ("float64", "complex128"):
        case = cases.Case(cases.repeated, 9, dtype)
        a = case.build()
        one, other = kernels.eigh(a), np.linalg.eigh(a[:, ::-1, ::-1])
        fixed = kernels.fix_gauge(one.vectors, one.values, "cluster")
        other = kernels.fix_gauge(other[1][:, ::-1].copy(), other[0], "cluster")
        assert np.abs(fixed - other).max() < 1e-10
        assert (kernels.verify(a, one.values, fixed) < 40).all()
        order = rng.permutation(len(a))
        again = kernels.fix_gauge(one.vectors[order], one.values[order], "cluster")
        assert again.tobytes() == fixed[order].tobytes()


def test_cluster_tolerance_is_relative_and_chained() -> None:
    v = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    w = 1e6 * np.array([1, 1 + 1e-9, 1 + 2e-9, 2])
    phase = kernels.fix_gauge(v)
    assert (kernels.fix_gauge(v, w, "cluster") == phase).all()
    loose = kernels.fix_gauge(v, w, "cluster", tol=1e-9)
    assert np.abs(loose[:, :3] - phase[:, :3]).max() > 1e-3 and (loose[:, 3] == phase[:, 3]).all()
    assert (kernels.fix_gauge(v, w, "cluster", tol=0.4e-9) == phase).all()


def test_cluster_kinds_bad_columns_and_misuse() -> None:
    a = np.stack([np.eye(3), np.diag([1.0, 2, 2]), np.full((3, 3), np.nan)])
    found = kernels.eigh(torch.from_numpy(a))
    fixed = kernels.fix_gauge(found.vectors, found.values, "cluster")
    assert isinstance(fixed, torch.Tensor) and fixed[2].isnan().all()
    assert np.array_equal(fixed[:2], np.stack([np.eye(3)] * 2))
    with pytest.raises(ValueError, match="needs the values"):
        kernels.fix_gauge(a, gauge="cluster")
    with pytest.raises(ValueError, match=r"got values of shape \(3, 2\).*expected real \(3, 3\)"):
        kernels.fix_gauge(a, np.zeros((3, 2)), "cluster")
    with pytest.raises(ValueError, match="tol"):
        kernels.fix_gauge(a, np.zeros((3, 3)), "cluster", tol=-1.0)
    with pytest.raises(ValueError, match="no gradient"):
        v = torch.eye(3, requires_grad=True)
        kernels.fix_gauge(v, torch.ones(3), "cluster")


def test_phase_is_differentiable() -> None:
    v = torch.from_numpy(np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)) + 0j)[0])
    v = v * torch.exp(1j * torch.arange(4.0, dtype=torch.float64))
    fixed = kernels.fix_gauge(v.clone().requires_grad_())
    torch.testing.assert_close(fixed.detach(), kernels.fix_gauge(v))
    real = v.abs().clone().mul_(torch.tensor([1.0, -1, 1, -1])).requires_grad_()
    kernels.fix_gauge(real).sum().backward()
    expected = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64).expand(4, 4)
    torch.testing.assert_close(real.grad, expected)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 40])
@pytest.mark.parametrize("driver", ["lanes", "lapack"])
def test_eigh_fixes_the_phase(n: int, dtype: str, driver: str) -> None:
    """By the same rule: nothing is left for `fix_gauge` to do, ties and reversed rows included."""
    rng = np.random.default_rng(n)
    a = cases.hermitian(cases.gaussian(rng, (60, n, n), dtype.startswith("c")))
    circulant = np.zeros((n, n))
    for i in range(n):
        circulant[i, (i + 1) % n] = circulant[(i + 1) % n, i] = 1
    a[:20] = circulant  # components equal but for rounding
    a[20:40] *= np.geomspace(1, 1e-3, n)[:, None] * np.geomspace(1, 1e-3, n)  # graded down,
    a[40:60] *= np.geomspace(1e-3, 1, n)[:, None] * np.geomspace(1e-3, 1, n)  # and up
    v = kernels.eigh(a.astype(dtype), driver=driver).vectors
    assert kernels.fix_gauge(v).tobytes() == v.tobytes()
    size = np.abs(v)
    pivot = (size >= (1 - np.sqrt(np.finfo(dtype).eps)) * size.max(-2, keepdims=True)).argmax(-2)
    chosen = np.take_along_axis(v, pivot[:, None, :], -2)
    assert (chosen.real > 0).all() and (chosen.imag == 0).all()
