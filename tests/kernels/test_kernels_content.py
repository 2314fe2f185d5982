"""What matrices may contain, and that none touches another."""

from __future__ import annotations

import kernels_cases as cases
import numpy as np
import pytest

import kernels
from kernels import Status


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_one_bad_matrix_leaves_the_others_alone(dtype: str, bad: float, vectors: bool) -> None:
    rng = np.random.default_rng(0)
    c = dtype.startswith("c")
    a = cases.hermitian(cases.gaussian(rng, (300, 7, 7), c)).astype(dtype)
    clean = kernels.eigh(a, vectors=vectors)
    a[137, 4, 2] = bad
    found = kernels.eigh(a, vectors=vectors)
    assert found.status[137] == Status.nonfinite
    assert np.isnan(found.values[137]).all() and np.isnan(found.residual[137])
    assert not vectors or np.isnan(found.vectors[137]).all()
    keep = np.arange(300) != 137
    assert cases.bits(None if x is None else x[keep] for x in found) == cases.bits(
        None if x is None else x[keep] for x in clean
    )


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_what_is_not_read_does_not_count(n: int, dtype: str) -> None:
    a = cases.Case(cases.random, n, dtype).build()
    clean = kernels.eigh(a)
    for hermitian, hidden in (("lower", np.triu_indices(n, 1)), ("upper", np.tril_indices(n, -1))):
        b = a.copy()
        b[:, hidden[0], hidden[1]] = np.inf
        if dtype.startswith("c"):  # LAPACK ignores the imaginary part of the diagonal
            b.imag[:, np.arange(n), np.arange(n)] = np.nan
        assert cases.bits(kernels.eigh(b, hermitian=hermitian)) == cases.bits(clean)
        both = kernels.eigh(b, hermitian="strict").status
        ignored = n == 1 and not dtype.startswith("c")
        assert (both == (Status.ok if ignored else Status.nonfinite)).all()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_strict_and_its_tolerance(dtype: str, scale: float) -> None:
    case = cases.Case(cases.random, 5, dtype)
    a = case.build() * np.dtype(case.real).type(scale)
    peak = np.abs(a).max((-1, -2))
    tolerance = 100 * 5 * case.eps
    for factor, status in ((0.5, Status.ok), (2.0, Status.not_hermitian)):
        b = a.copy()
        b[:, 3, 1] += (factor * tolerance * peak).astype(case.real)
        found = kernels.eigh(b, hermitian="strict")
        assert (found.status == status).all()
        assert np.isnan(found.values).all() == (status != Status.ok)
        assert (kernels.eigh(b, hermitian="strict", hermitian_tol=1.0).status == 0).all()
        assert (kernels.eigh(b, hermitian="strict", hermitian_tol=0.0).status == 3).all()
        average = kernels.eigh(b, hermitian="average")
        mean = kernels.eigh(cases.hermitian(b))
        assert (average.status == Status.ok).all()
        assert np.abs(average.values - mean.values).max() <= 5 * 5 * case.eps * peak.max()


def test_imaginary_diagonal_is_a_defect_to_strict_alone() -> None:
    a = np.eye(2, dtype=complex) * (1 + 0.1j)
    assert kernels.eigh(a, hermitian="strict").status == Status.not_hermitian
    for hermitian in ("lower", "upper", "average"):
        assert kernels.eigh(a, hermitian=hermitian).values.tolist() == [1.0, 1.0]


def test_extremes_do_not_overflow() -> None:
    huge = np.array([[1e308, 1e308], [1e308, -1e308]])
    for hermitian in ("lower", "upper", "strict", "average"):
        found = kernels.eigh(huge, hermitian=hermitian)
        assert found.status == Status.ok
        assert found.values == pytest.approx([-np.sqrt(2) * 1e308, np.sqrt(2) * 1e308], rel=1e-15)
    opposite = np.array([[0, 1.7e308], [-1.7e308, 0]])
    assert kernels.eigh(opposite, hermitian="strict").status == Status.not_hermitian
    assert kernels.eigh(opposite, hermitian="average").values.tolist() == [0.0, 0.0]
    smallest = np.full((2, 2), 5e-324)
    assert kernels.eigh(smallest).values.tolist() == [0.0, 1e-323]


def test_value_beyond_the_range_is_failed() -> None:
    found = kernels.eigh(np.full((4, 4), 1.7e308))
    assert found.status == Status.failed and np.isnan(found.values).all()
    assert kernels.eigh(np.full((4, 4), 1.7e308), check="off").status == Status.failed


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty_batches(shape: tuple[int, ...], n: int) -> None:
    found = kernels.eigh(np.empty((*shape, n, n)))
    assert found.values.shape == (*shape, n) and found.vectors.shape == (*shape, n, n)
    assert found.residual.shape == found.status.shape == shape
    assert kernels.verify(np.empty((*shape, n, n)), found.values).shape == shape
