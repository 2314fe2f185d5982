"""A x = lambda B x: against scipy and mpmath, at any scale and condition, one matrix at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels_cases as cases
import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch

import kernels
from kernels import Status, generalized, plain_pairs, primitives
from kernels.residual import probe_vector

PRIMITIVES = ("few", "pencil_back", "pencil_reduce", "pencil_residual", "places")


def metric(n: int, dtype: str, condition: float = 10.0, seed: int = 0) -> Any:
    """Positive definite (COUNT, n, n) of norm 1 and a given condition, exactly Hermitian."""
    spectra = np.geomspace(1 / condition, 1, n) if n > 1 else np.ones(1)
    rng = np.random.default_rng([seed, n])
    b = cases.rotated(rng, np.tile(spectra, (cases.COUNT, 1)), dtype.startswith("c"))
    return cases.hermitian(b.astype(dtype)).astype(dtype)


def wide(a: Any) -> Any:
    return a.astype(np.result_type(a.dtype, np.float64))


def reference(a: Any, b: Any) -> Any:
    return np.array([scipy.linalg.eigh(*x, eigvals_only=True) for x in zip(wide(a), wide(b))])  # noqa: B905


def by_definition(n: int, a: Any, b: Any, w: Any, v: Any, eps: float, full: bool) -> Any:
    """The residual of docs/kernels.md, with library products."""
    a, b, w, v = (x.astype(np.result_type(x.dtype, np.longdouble)) for x in (a, b, w, v))
    lengths = (np.abs(v) ** 2).sum(-2).max(-1)
    size_b = np.abs(b).max((-1, -2))
    norm = np.abs(a).max((-1, -2)) + size_b * np.abs(w).max(-1)
    stretch = np.maximum(1, size_b * lengths)
    apart = a @ v - b @ v * w[:, None, :]
    skew = v.conj().swapaxes(-1, -2) @ b @ v - np.eye(w.shape[1])
    if not full:
        parts = probe_vector(n, a.dtype.kind == "c")
        x = (parts[0] + 1j * parts[1] if a.dtype.kind == "c" else parts[0])[: w.shape[1]]
        apart, skew = (y @ x[:, None] for y in (apart, skew))
    first, second = (np.sqrt((np.abs(y) ** 2).sum((-1, -2))) for y in (apart, skew))
    return np.maximum(first / norm / np.sqrt(stretch / size_b), second / stretch) / (n * eps)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 33, 70])
@pytest.mark.parametrize("family", cases.FAMILIES, ids=lambda f: f.__name__)
def test_pairs(family: Any, n: int, dtype: str) -> None:
    case = cases.Case(family, n, dtype)
    a, b = case.build(), metric(n, dtype)
    found = kernels.eigh(a, b=b, check="full")
    assert (found.status == Status.ok).all() and found.residual.max() < 10
    assert found.values.dtype == case.real and found.vectors.dtype == dtype
    assert (np.diff(found.values) >= 0).all()
    unit = 10 * n * case.eps
    assert np.abs(found.values - reference(a, b)).max() <= 10 * unit  # times the condition
    v, w = wide(found.vectors), wide(found.values)
    assert np.abs(wide(a) @ v - wide(b) @ v * w[:, None, :]).max() < 10 * unit
    assert np.abs(v.conj().swapaxes(-1, -2) @ wide(b) @ v - np.eye(n)).max() < 10 * unit
    alone = kernels.eigvalsh(a, b=b)
    assert alone.vectors is None and (alone.status == Status.ok).all()
    assert alone.residual.max() < 20
    assert np.abs(alone.values - found.values).max() <= 10 * unit


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_fifty_digits(dtype: str) -> None:
    a, b = cases.Case(cases.random, 4, dtype).build()[:1], metric(4, dtype)[:1]
    with mpmath.workdps(50):
        lower = mpmath.cholesky(mpmath.matrix(wide(b)[0].tolist()))
        inverse = lower**-1
        c = inverse * mpmath.matrix(wide(a)[0].tolist()) * inverse.H
        exact = sorted(float(x) for x in mpmath.eighe((c + c.H) / 2, eigvals_only=True))
    for found in (kernels.eigh(a, b=b), kernels.eigvalsh(a, b=b)):
        assert np.abs(found.values[0] - exact).max() < 40 * 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("decades", [3, 6, 9, 12, 14])
def test_ill_conditioned(decades: int, dtype: str) -> None:
    """The documented bounds: n eps cond(B) for the metric, n eps max|l| for the values."""
    eps, condition = float(np.finfo(dtype).eps), 10.0**decades
    if condition * eps > 0.1:
        pytest.skip("not positive definite in this precision")
    for n in (2, 8, 33):
        a, b = cases.Case(cases.random, n, dtype).build(), metric(n, dtype, condition)
        for found in (
            kernels.eigh(a, b=b, repair=False),
            kernels.eigh(a, b=b, check="full", repair=False),
            kernels.eigh(a, b=b, subset=(0, 1), repair=False),
            kernels.eigvalsh(a, b=b, repair=False),
        ):
            assert (found.status == Status.ok).all() and found.residual.max() < 15
        found = kernels.eigh(a, b=b)
        v = wide(found.vectors)
        skew = v.conj().swapaxes(-1, -2) @ wide(b) @ v - np.eye(n)
        assert np.abs(skew).max() < 10 * n * eps * condition
        exact = reference(a, b)
        assert (np.abs(found.values - exact).max() / np.abs(exact).max()) < 10 * n * eps * condition


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [("float64", (-1030, -900, 300, 1000)), ("complex64", (-120, -60, 60, 110))],
)
def test_any_scale(dtype: str, exponents: tuple[int, ...]) -> None:
    """Powers of two go in and come out exactly, wherever the result is a normal number."""
    a, b = cases.Case(cases.random, 5, dtype).build(), metric(5, dtype)
    plain = kernels.eigh(a, b=b)
    real = plain.values.dtype
    for p in exponents:
        for q in (0, p - p % 2, -(p - p % 2) // 2 // 2 * 2):
            if abs(p - q) > (950 if dtype == "float64" else 90):
                continue
            left, right = (cases.scaled(x, np.full(len(x), -e)).astype(dtype) for x, e in
                           ((wide(a), p), (wide(b), q)))  # fmt: skip
            if p < np.finfo(real).minexp + 30 or q < np.finfo(real).minexp + 30:
                assert (kernels.eigh(left, b=right).status == Status.ok).all()
                continue
            found = kernels.eigh(left, b=right)
            assert (found.status == Status.ok).all()
            expected = cases.scaled(wide(plain.values), np.full(len(a), q - p)).astype(real)
            assert found.values.tobytes() == expected.tobytes()
            sides = cases.scaled(wide(plain.vectors), np.full(len(a), q // 2)).astype(dtype)
            assert found.vectors.tobytes() == sides.tobytes()
            assert found.residual.tobytes() == plain.residual.tobytes()
    huge = kernels.eigh(a * real.type(2.0 ** exponents[-1]), b=b * real.type(2.0 ** -exponents[-1]))
    assert (huge.status == Status.failed).all() and np.isnan(huge.values).all()


def indefinite(b: Any) -> None:
    b[1] -= 0.2 * np.eye(b.shape[-1])  # the smallest eigenvalue is 0.1


def singular(b: Any) -> None:
    b[1] = np.ones(b.shape[1:])


def negative(b: Any) -> None:
    b[1] *= -1


def zero(b: Any) -> None:
    b[1] = 0


@pytest.mark.parametrize("spoil", [indefinite, singular, negative, zero])
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_not_positive_definite_is_a_status(
    dtype: str, vectors: bool, spoil: Callable[[Any], None]
) -> None:
    a, b = cases.Case(cases.random, 6, dtype).build(), metric(6, dtype)
    clean = kernels.eigh(a, b=b, vectors=vectors)
    spoil(b)
    found = kernels.eigh(a, b=b, vectors=vectors)
    assert found.status.tolist() == [0, Status.not_positive_definite, 0]
    assert np.isnan(found.values[1]).all() and np.isnan(found.residual[1])
    good = [0, 2]
    assert cases.bits([None if x is None else x[good] for x in found]) == cases.bits(
        [None if x is None else x[good] for x in clean]
    )


def test_bad_content_of_either() -> None:
    a = np.concatenate([cases.Case(cases.random, 4, "complex128").build()] * 2)
    b = np.concatenate([metric(4, "complex128")] * 2)
    clean = kernels.eigh(a, b=b, hermitian="strict")
    a[0, 2, 1], b[1, 3, 3], b[2, 0, 3], a[3, 3, 0] = np.nan, np.inf, 5, 5
    b[4, 1, 1] = -1
    found = kernels.eigh(a, b=b, hermitian="strict")
    assert found.status.tolist() == [2, 2, 3, 3, 8, 0]
    assert cases.bits([x[5] for x in found]) == cases.bits([x[5] for x in clean])
    assert np.isnan(found.values[:5]).all() and np.isnan(found.vectors[:5]).all()


def test_the_triangle_read_is_that_of_both() -> None:
    a, b = cases.Case(cases.random, 5, "complex128").build(), metric(5, "complex128")
    whole = cases.bits(kernels.eigh(a, b=b))
    for mode, cut in (("lower", np.tril), ("upper", np.triu)):
        rubbish = 7 * (cut(np.ones((5, 5))) == 0)
        left, right = cut(a) + rubbish, cut(b) + rubbish
        assert cases.bits(kernels.eigh(left, b=right, hermitian=mode)) == whole
    assert cases.bits(kernels.eigh(a, b=b, hermitian="average")) == whole


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [3, 17, 40])
def test_bits_depend_on_the_pencil_alone(n: int, dtype: str) -> None:
    count, rng = 60, np.random.default_rng(n)
    a = cases.hermitian(cases.gaussian(rng, (count, n, n), dtype.startswith("c"))).astype(dtype)
    b = np.concatenate([metric(n, dtype, seed=s) for s in range(count // cases.COUNT)])
    order = rng.permutation(count)
    whole = kernels.eigh(a, b=b, threads=1)
    for other in (
        kernels.eigh(a[order], b=b[order], threads=3),
        kernels.eigh(np.asfortranarray(a)[order], b=np.asfortranarray(b)[order], threads=2),
    ):
        assert cases.bits(other) == cases.bits([x[order] for x in whole])
    assert cases.bits(kernels.eigh(a[4], b=b[4])) == cases.bits([x[4] for x in whole])
    one = kernels.eigh(a, b=b[7])
    assert cases.bits([x[7] for x in one]) == cases.bits([x[7] for x in whole])


def test_broadcast_kinds_and_empty_batches() -> None:
    a = cases.Case(cases.random, 4, "complex128").build()
    b = metric(4, "float64")
    found = kernels.eigh(a[:, None], b=b)  # a real b serves a complex a
    assert found.vectors.shape == (3, 3, 4, 4) and found.status.shape == (3, 3)
    each = kernels.eigh(a[1], b=b[2].astype(complex))
    assert cases.bits([x[1, 2] for x in found]) == cases.bits(each)
    tensor = kernels.eigh(torch.from_numpy(a[:, None]).conj(), b=torch.from_numpy(b))
    assert isinstance(tensor.values, torch.Tensor)
    other = kernels.eigh(a[:, None].conj(), b=b)
    assert tensor.vectors.numpy().tobytes() == other.vectors.tobytes()
    assert kernels.eigh(np.empty((0, 4, 4)), b=b[0]).values.shape == (0, 4)
    same = kernels.eigh(a, b=np.eye(4))
    assert np.abs(same.values - kernels.eigh(a).values).max() < 1e-14


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (np.eye(3), "shape"),
        (np.eye(4, dtype=complex), "expected a dtype that holds b"),
        (np.stack([np.eye(4)] * 3), "does not broadcast"),
        (np.ones(4), "expected"),
        (torch.eye(4, dtype=torch.float64), "move one of them"),
        ([[1.0]], "expected a plain"),
    ],
)
def test_misuse(b: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.eigh(np.stack([np.eye(4)] * 2), b=b)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [6, 80])
def test_subset(n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cases.Case(cases.random, n, dtype).build(), metric(n, dtype)
    whole = kernels.eigh(a, b=b)
    for lo, hi in ((0, 2), (n - 3, n)):
        found = kernels.eigh(a, b=b, subset=(lo, hi))
        assert (found.status == Status.ok).all() and found.residual.max() < 10
        scale = np.abs(whole.values).max()
        eps = n * np.finfo(dtype).eps
        assert np.abs(found.values - whole.values[:, lo:hi]).max() < 10 * eps * scale
        v = found.vectors
        assert np.abs(v.conj().swapaxes(-1, -2) @ b @ v - np.eye(hi - lo)).max() < 100 * eps
        alone = kernels.eigvalsh(a, b=b, subset=(lo, hi))
        assert np.abs(alone.values - found.values).max() < 10 * eps * scale
    if n == 80:
        honest = primitives.few
        monkeypatch.setattr(
            primitives, "few", lambda a, t, s, lo, *rest: honest(a, t, s, lo + 1, *rest)
        )
        found = kernels.eigh(a, b=b, subset=(0, 2))
        assert (found.status == Status.repaired).all() and found.residual.max() < 15
        assert np.abs(found.values - whole.values[:, :2]).max() < 10 * eps * scale


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_residual_is_what_is_defined(n: int, dtype: str) -> None:
    a, b = cases.Case(cases.random, n, dtype).build(), metric(n, dtype, 1e3)
    found, eps = kernels.eigh(a, b=b), float(np.finfo(dtype).eps)
    w = found.values + 1e6 * eps * np.arange(1, n + 1).astype(found.values.dtype)
    for full in (False, True):
        mode: Any = "full" if full else "probe"
        exact = by_definition(n, a, b, w, found.vectors, eps, full)
        verified = kernels.verify(a, w, found.vectors, b=b, mode=mode)
        assert verified == pytest.approx(exact, rel=1e-3, abs=0.5)
    assert (kernels.verify(a, found.values, found.vectors, b=b) < 10).all()
    assert (kernels.verify(a, found.values, b=b) < 20).all()
    assert (kernels.verify(a, w, b=b) > 50).all()
    assert (kernels.verify(a, found.values, found.vectors, b=2 * b) > 1e3).all()


def test_injected_errors_are_found() -> None:
    rng, count, n = np.random.default_rng(2), 200, 6
    a = cases.hermitian(cases.gaussian(rng, (count, n, n), True))
    half = cases.gaussian(rng, (count, n, n), True)
    b = half @ half.conj().swapaxes(-1, -2) / n + np.eye(n)
    w, v = kernels.eigh(a, b=b)[:2]
    at, seen = np.arange(count), 0
    for wrong in range(4):
        for _ in range(20):
            k, m = rng.integers(0, n, (2, count))
            bad, twisted = w.copy(), v.copy()
            amount = 10.0 ** rng.uniform(-12, 0, count)
            if wrong == 0:
                bad[at, k] += amount
            elif wrong == 1:
                twisted[at, m, k] += amount
            elif wrong == 2:
                twisted[at, :, k], twisted[at, :, m] = v[at, :, m], v[at, :, k]
            else:
                twisted[at, :, k] *= 1 + amount[:, None]
            large = kernels.verify(a, bad, twisted, b=b, mode="full") >= 500
            seen += int(large.sum())
            assert (kernels.verify(a, bad, twisted, b=b)[large] > kernels.THRESHOLD).all()
    assert seen > 8000


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_repaired_by_the_other_route(
    dtype: str, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = cases.Case(cases.random, 6, dtype).build(), metric(6, dtype)
    clean = kernels.eigh(a, b=b, vectors=vectors)
    honest = primitives.pencil_reduce

    def reduce(*arguments: Any) -> None:
        honest(*arguments)
        arguments[6][1, 0, 0] += 0.1  # C is not what A and B make of it
        arguments[10][1] = 1e9  # and the probe of the reduction sees that

    monkeypatch.setattr(primitives, "pencil_reduce", reduce)
    found = kernels.eigh(a, b=b, vectors=vectors)
    assert found.status.tolist() == [0, Status.repaired, 0] and found.residual.max() < 15
    unit = 100 * 6 * np.finfo(dtype).eps * np.abs(clean.values).max()
    assert np.abs(found.values - clean.values).max() < unit
    lost = kernels.eigh(a, b=b, vectors=vectors, repair=False)
    assert lost.status.tolist() == [0, Status.failed, 0] and np.isnan(lost.values[1]).all()
    monkeypatch.setattr(
        generalized,
        "solve_again",
        lambda a, b, t: (np.full((1, 6), np.nan, a.real.dtype), a * np.nan),
    )
    assert kernels.eigh(a, b=b, vectors=vectors).status.tolist() == [0, Status.failed, 0]


@pytest.mark.parametrize("mode", ["lower", "upper", "average"])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_the_other_route_is_sound(dtype: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pencil through scipy, at scales of their own."""
    real = np.finfo(dtype).dtype.type
    a = cases.Case(cases.random, 7, dtype).build() * real(2.0**40)
    b = metric(7, dtype) * real(2.0**-21)
    clean = kernels.eigh(a, b=b, hermitian=mode)
    monkeypatch.setattr(generalized, "restore", lambda found, values, vectors: values.fill(np.nan))
    found = kernels.eigh(a, b=b, hermitian=mode)
    assert (found.status == Status.repaired).all() and found.residual.max() < 15
    unit = 100 * 7 * np.finfo(dtype).eps * np.abs(clean.values).max()
    assert np.abs(found.values - clean.values).max() < unit


def test_unchecked() -> None:
    a, b = cases.Case(cases.random, 4, "float64").build(), metric(4, "float64")
    b[1] *= -1
    found = kernels.eigh(a, b=b, check="off")
    assert found.status.tolist() == [9, 8, 9] and np.isnan(found.residual).all()
    assert cases.bits([found.values[0]]) == cases.bits([kernels.eigh(a, b=b).values[0]])


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_plain_fallback(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cases.Case(cases.random, 6, dtype).build(), metric(6, dtype)
    b[1] *= -1
    compiled = kernels.eigh(a, b=b), kernels.eigvalsh(a, b=b)
    judged = kernels.verify(a, compiled[0].values + 1, compiled[0].vectors, b=b)
    for name in PRIMITIVES:
        monkeypatch.setattr(primitives, name, getattr(plain_pairs, name))
    for plain, fast in zip((kernels.eigh(a, b=b), kernels.eigvalsh(a, b=b)), compiled, strict=True):
        assert plain.status.tolist() == fast.status.tolist() == [0, 8, 0]
        scale = 50 * 6 * np.finfo(dtype).eps * np.nanmax(np.abs(fast.values))
        assert np.nanmax(np.abs(plain.values - fast.values)) < scale
    again = kernels.verify(a, compiled[0].values + 1, compiled[0].vectors, b=b)
    assert again == pytest.approx(judged, rel=1e-4, nan_ok=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(dtype: torch.dtype) -> None:
    """Of values in A and B, and of a function of the vectors that no sign or phase changes."""
    generator = torch.Generator().manual_seed(0)
    a, half = (torch.randn(2, 3, 3, dtype=dtype, generator=generator) for _ in range(2))
    a = ((a + a.mH) / 2).requires_grad_()
    b = (half @ half.mH + torch.eye(3)).requires_grad_()

    def values(x: Any, y: Any) -> Any:
        return kernels.eigh((x + x.mH) / 2, b=(y + y.mH) / 2, vectors=False).values

    def weights(x: Any, y: Any) -> Any:
        return kernels.eigh((x + x.mH) / 2, b=(y + y.mH) / 2).vectors.abs() ** 2

    assert torch.autograd.gradcheck(values, (a, b))
    assert torch.autograd.gradcheck(weights, (a, b))
    found, plain = kernels.eigh(a, b=b), kernels.eigh(a.detach(), b=b.detach())
    assert torch.allclose(found.values, plain.values) and (found.status == 0).all()
    bad = kernels.eigh(a, b=-b)
    assert bad.status.tolist() == [8, 8] and bad.values.isnan().all()
