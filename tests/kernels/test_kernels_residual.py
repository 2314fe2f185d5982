"""The residual: its definition, and that no injected error passes."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels.residual import probe_vector

PROBE_2 = [1.8924068459997183, 1.4917742638271676]
PROBE_2_COMPLEX = [
    [-0.9724678859927228, -0.12290095935705361],
    [-1.4576989018548057, 1.1815856316595719],
]


def by_definition(case: cases.Case, a: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """(probe, full) in extended precision with library products."""
    a, w, v = (x.astype(np.result_type(x.dtype, np.longdouble)) for x in (a, w, v))
    unit = case.n * case.eps
    norm = np.maximum(np.abs(w).max(-1), np.abs(a).max((-1, -2)))
    norm = np.where(norm > 0, norm, 1)
    apart, skew = a @ v - v * w[..., None, :], v.conj().swapaxes(-1, -2) @ v - np.eye(w.shape[-1])
    parts = probe_vector(case.n, case.dtype.startswith("c"))
    x = (parts[0] + 1j * parts[1])[: w.shape[-1]]

    def size(r: Any, axes: Any) -> Any:
        return np.sqrt((np.abs(r) ** 2).sum(axes))

    return (
        np.maximum(size(apart @ x, -1) / norm, size(skew @ x, -1)) / unit,
        np.maximum(size(apart, (-1, -2)) / norm, size(skew, (-1, -2))) / unit,
    )


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 33])
def test_is_what_is_defined(n: int, dtype: str) -> None:
    case = cases.Case(cases.random, n, dtype)
    a = case.build()
    found = kernels.eigh(a)
    w = found.values + 1e4 * case.eps * np.arange(n).astype(case.real)
    for pairs in (slice(0, n), slice(n // 2, n)):
        part, vectors = w[:, pairs], found.vectors[:, :, pairs]
        probe, full = by_definition(case, a, part, vectors)
        assert kernels.verify(a, part, vectors) == pytest.approx(probe, rel=1e-4, abs=1e-3)
        result = kernels.verify(a, part, vectors, mode="full")
        assert result == pytest.approx(full, rel=1e-4, abs=1e-3)
        assert result.dtype == np.float32


def test_probe_vector_is_fixed() -> None:
    """splitmix64's published first words, moduli between 1 and 2, and the values of release 0.1."""
    from kernels.residual import _SplitMix

    random = _SplitMix(1234567)
    assert [random.word() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    for n in (1, 2, 3, 64):
        for is_complex in (False, True):
            modulus = np.hypot(*probe_vector(n, is_complex))
            assert modulus.min() >= 1 - 1e-15 and modulus.max() < 2 + 1e-15
    assert not probe_vector(64, False)[1].any()
    assert probe_vector(2, False)[0].tolist() == PROBE_2
    assert probe_vector(2, True).tolist() == PROBE_2_COMPLEX


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_injected_errors_are_found(dtype: str) -> None:
    rng = np.random.default_rng(11)
    seen = 0
    for n, count in ((2, 800), (3, 800), (4, 400), (8, 200), (16, 100), (33, 20)):
        a = cases.hermitian(cases.gaussian(rng, (count, n, n), dtype.startswith("c")))
        a = a.astype(dtype)
        found = kernels.eigh(a)
        eps = np.finfo(dtype).eps
        row, k, other = rng.integers(0, n, count), rng.integers(0, n, count), np.arange(count)
        m = (k + rng.integers(1, n, count)) % n
        amount = 10.0 ** rng.uniform(np.log10(100 * n * eps), 0, count)
        amount = (amount * rng.choice([-1, 1], count)).astype(found.values.dtype)
        w, v = found.values, found.vectors
        for wrong in range(6):
            bad, twisted = w.copy(), v.copy()
            if wrong == 0:
                bad[other, k] += amount * np.abs(a).max((-1, -2))
            elif wrong == 1:
                twisted[other, row, k] += amount
            elif wrong == 2:
                twisted[other, :, k], twisted[other, :, m] = v[other, :, m], v[other, :, k]
            elif wrong == 3:
                twisted[other, :, k] *= 1 + amount[:, None]
            elif wrong == 4:
                twisted[other, :, k] = 0
            else:
                twisted = np.roll(v, 1, 0)
            size = kernels.verify(a, bad, twisted, mode="full")
            large = size >= 500
            seen += int(large.sum())
            assert (kernels.verify(a, bad, twisted)[large] > kernels.THRESHOLD).all()
    assert seen > 8000


def test_scale_does_not_change_it() -> None:
    for case in (cases.Case(cases.random, 5, d) for d in ("float64", "complex128")):
        a = case.build()
        found = kernels.eigh(a)
        w, v = found.values * (1 + 1e-13), found.vectors
        for exponent in (-900, -300, 300, 900):
            power = 2.0**exponent
            for mode in ("probe", "full"):
                moved = kernels.verify(a * power, w * power, v, mode=mode)
                assert moved.tobytes() == kernels.verify(a, w, v, mode=mode).tobytes()
            moved = kernels.verify(a * power, w * power)
            assert moved.tobytes() == kernels.verify(a, w).tobytes()


def test_subnormal_values_are_held_to_their_own_spacing() -> None:
    a = cases.Case(cases.random, 5, "float64", 1e-310).build()
    found = kernels.eigh(a)
    assert found.residual.max() < 10
    wrong = found.values + 5e-324 * 1000 * 5
    assert (kernels.verify(a, wrong, found.vectors) > 500).all()
    skew = found.vectors * (1 + 1e-12)
    assert (kernels.verify(a, found.values, skew) > 50).all()


def test_zero_matrix_gives_zero_but_its_vectors_count() -> None:
    zero, values = np.zeros((3, 3)), np.zeros(3)
    assert kernels.verify(zero, values, np.eye(3)) == 0 == kernels.verify(zero, values)
    assert kernels.verify(zero, values, np.ones((3, 3))) > 1e6
    assert kernels.verify(zero, values + 1, np.eye(3)) > 1e6


def test_values_alone() -> None:
    a = cases.Case(cases.random, 6, "complex128").build()
    w = kernels.eigvalsh(a).values
    unit = 6 * np.finfo(float).eps * np.abs(w).max(-1)
    shifted = w.copy()
    shifted[:, 2] += 1000 * unit
    assert kernels.verify(a, shifted) == pytest.approx(1000, rel=0.05)
    assert (kernels.verify(a, w[:, ::-1]) > 1e10).all()  # the order
    pair = w.copy()
    pair[:, 0] -= 0.01
    pair[:, -1] += 0.01  # the sum is right, the sum of squares is not
    assert (kernels.verify(a, pair) > 1e10).all()


@pytest.mark.parametrize("mode", ["probe", "full"])
def test_not_finite(mode: Any) -> None:
    a = np.stack([np.eye(3)] * 5)
    w, v = np.ones((5, 3)), a.copy()
    a[0, 1, 1], w[1, 1], v[2, 0, 0], v[3, 0, 1] = np.nan, np.inf, np.nan, 1e200
    a[4, 0, 2] = np.nan  # the upper triangle is not read
    residual = kernels.verify(a, w, v, mode=mode)
    assert np.isnan(residual[:3]).all() and np.isinf(residual[3]) and residual[4] == 0


def test_precision_is_that_of_the_coarser() -> None:
    a = cases.Case(cases.random, 4, "complex128").build()
    found = kernels.eigh(a)
    stored = found.values.astype("f4"), found.vectors.astype("c8")
    assert (kernels.verify(a, *stored) < 10).all()
    assert (kernels.verify(a.astype("c8"), found.values, found.vectors) < 10).all()
    mixed = kernels.verify(torch.from_numpy(a), *stored)
    assert isinstance(mixed, torch.Tensor) and mixed.dtype == torch.float32


@pytest.mark.parametrize(
    ("values", "vectors", "message"),
    [
        (np.zeros((2, 4)), np.zeros((2, 3, 4)), "values of shape"),
        (np.zeros(3), np.zeros((3, 3)), "values of shape"),
        (np.zeros((2, 2)), None, "2 values without vectors, expected all 3"),
        (np.zeros((2, 2)), np.zeros((2, 3, 3)), r"expected \(2, 3, 2\)"),
        (np.zeros((2, 3), complex), None, "expected real"),
        (np.zeros((2, 3), int), None, "float32"),
    ],
)
def test_misuse_of_verify(values: Any, vectors: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.verify(np.zeros((2, 3, 3)), values, vectors)
    with pytest.raises(ValueError, match="mode"):
        kernels.verify(np.eye(3), np.ones(3), mode="half")  # type: ignore[arg-type]
