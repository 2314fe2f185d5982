"""Every family, size, dtype and scale: against LAPACK by numpy, mpmath, and the definitions."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import mpmath
import numpy as np
import pytest

import kernels
from kernels import Status


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_pairs(case: cases.Case) -> None:
    a = case.build()
    found = kernels.eigh(a, check="full")
    assert (found.status == Status.ok).all()
    assert found.residual.max() < 10
    assert found.values.dtype == case.real and found.vectors.dtype == case.dtype
    assert (np.diff(found.values) >= 0).all()
    h, e = cases.normalised(a)
    w = cases.scaled(found.values.astype(float), e)
    # a stored subnormal value is good to the spacing of the subnormal numbers
    coarse = cases.scaled(np.full(len(a), float(np.finfo(case.real).smallest_subnormal)), e)
    slack = case.n * np.maximum(case.eps, coarse)[:, None]
    assert (np.abs(w - np.linalg.eigvalsh(h)) <= 5 * slack).all()
    v = found.vectors.astype(np.clongdouble)
    gap = np.abs(h @ v - v * w[:, None, :]).max(-1)
    assert (gap <= 10 * slack).all()
    skew = v.conj().swapaxes(-1, -2) @ v - np.eye(case.n)
    assert np.abs(skew).max() < 10 * case.n * case.eps


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_values_alone(case: cases.Case) -> None:
    a = case.build()
    found = kernels.eigvalsh(a)
    assert found.vectors is None
    assert (found.status == Status.ok).all() and found.residual.max() < 15
    with_vectors = kernels.eigh(a)
    peak = np.abs(with_vectors.values).max(-1, keepdims=True).astype(np.longdouble)
    quantum = np.finfo(case.real).smallest_subnormal
    apart = np.abs(found.values.astype(np.longdouble) - with_vectors.values)
    assert (apart <= 5 * case.n * (case.eps * peak + quantum)).all()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [4, 16, 33])
def test_projectors_of_repeated_eigenvalues(n: int, dtype: str) -> None:
    case = cases.Case(cases.repeated, n, dtype)
    a = case.build()
    found = kernels.eigh(a)
    ones = -(-n // 3)
    top = found.vectors[:, :, -ones:]
    projector = top @ top.conj().swapaxes(-1, -2)
    # the family is a multiple of a projector: 1 / sqrt(ones) in Frobenius norm
    assert np.abs(projector - a * np.sqrt(ones)).max() < 10 * n * case.eps


@pytest.mark.parametrize("family", cases.FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_fifty_digits(family: Any, dtype: str, n: int) -> None:
    case = cases.Case(family, n, dtype)
    a = case.build()[:1]
    with mpmath.workdps(50):
        entries = a[0].astype(complex if dtype.startswith("c") else float).tolist()
        exact = mpmath.eighe(mpmath.matrix(entries), eigvals_only=True)
        reference = sorted(float(x) for x in exact)
    for found in (kernels.eigh(a), kernels.eigvalsh(a)):
        assert np.abs(found.values[0] - reference).max() <= 2 * n * case.eps


def test_subset_is_a_slice_of_the_whole() -> None:
    a = cases.Case(cases.random, 8, "complex128").build()
    whole = kernels.eigh(a)
    for subset, pairs in [((0, 3), slice(0, 3)), ([-3, 8], slice(5, 8)), ((-3, None), slice(5, 8)),
                          ((2, -2), slice(2, 6)), (np.array([0, 8]), slice(0, 8))]:  # fmt: skip
        part = kernels.eigh(a, subset=subset)
        assert part.vectors.flags.c_contiguous and part.values.flags.c_contiguous
        assert part.values.tobytes() == whole.values[:, pairs].tobytes()
        assert part.vectors.tobytes() == whole.vectors[:, :, pairs].tobytes()
        assert part.residual.tobytes() == whole.residual.tobytes()
        alone = kernels.eigvalsh(a, subset=subset)
        assert alone.values.tobytes() == kernels.eigvalsh(a).values[:, pairs].tobytes()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [2, 3, 5, 17, 64])
def test_bits_depend_on_the_matrix_alone(n: int, dtype: str) -> None:
    """Not on the batch, the position in it, the memory layout, the triangle or the threads."""
    count = 2000 if n <= 5 else 60
    rng = np.random.default_rng(n)
    a = cases.hermitian(cases.gaussian(rng, (count, n, n), dtype.startswith("c"))).astype(dtype)
    order = rng.permutation(count)
    whole = kernels.eigh(a, threads=1)
    for other in (
        kernels.eigh(a[order], threads=3),
        kernels.eigh(np.asfortranarray(a)[order], threads=2),
        kernels.eigh(a[order], hermitian="upper"),
        kernels.eigh(a[order], hermitian="strict"),
    ):
        assert cases.bits(other) == cases.bits([x[order] for x in whole])
    for i in rng.integers(0, count, 8):
        assert cases.bits(kernels.eigh(a[i])) == cases.bits([x[i] for x in whole])


@pytest.mark.parametrize("vectors", [True, False])
def test_no_alarm_on_many_random_matrices(vectors: bool) -> None:
    rng = np.random.default_rng(3)
    for n, count in ((2, 30000), (3, 30000), (4, 20000), (8, 5000), (16, 1000)):
        for dtype in cases.DTYPES:
            c = dtype.startswith("c")
            a = cases.hermitian(cases.gaussian(rng, (count, n, n), c)).astype(dtype)
            found = kernels.eigh(a, vectors=vectors)
            assert (found.status == Status.ok).all() and found.residual.max() < 15
