"""One matrix in each SIMD lane: as exact as LAPACK, and the same bits wherever it runs."""

from __future__ import annotations

import functools
from typing import Any

import kernels_cases as cases
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernels
from kernels import Status, lanes, primitives

pytestmark = pytest.mark.skipif(not lanes.SETS, reason="the lanes driver is not compiled")


def solve(a: Any, *, vectors: bool = True, probe: bool = True, **options: Any) -> kernels.Eigen:
    """The driver alone: nothing is repaired."""
    count, n = a.shape[:2]
    found = kernels.Eigen(
        np.empty((count, n), a.real.dtype),
        np.empty((count, n, n), a.dtype) if vectors else None,
        np.empty(count, np.float32),
        np.empty(count, np.uint8),
    )
    triangle = options.pop("triangle", primitives.LOWER)
    tolerance = options.pop("tolerance", np.inf)
    lanes.solve(a, triangle, tolerance, *found, probe=probe, **options)
    return found


def random(n: int, dtype: str, count: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([n, seed])
    a = cases.gaussian(rng, (count, n, n), dtype.startswith("c"))
    return cases.hermitian(a).astype(dtype)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("family", cases.FAMILIES, ids=lambda f: f.__name__)
def test_as_exact_as_lapack(family: Any, dtype: str) -> None:
    """Largest residual (whole, Frobenius) at most twice LAPACK's, or 2 n eps."""
    for n in cases.SIZES:
        a = cases.Case(family, n, dtype).build()
        ours = kernels.eigh(a, driver="lanes", check="full")
        theirs = kernels.eigh(a, driver="lapack", check="full")
        assert (ours.status == Status.ok).all(), n
        assert ours.residual.max() <= max(2 * theirs.residual.max(), 2), n


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("reverse", [False, True])
def test_small_values_of_graded_matrices(n: int, dtype: str, reverse: bool) -> None:
    """Relative to themselves, in the median of some matrices: as LAPACK's if the large elements
    come first, and far better if they come last."""
    rng = np.random.default_rng(n)
    d = 10.0 ** (-2.0 * np.arange(n))[:: -1 if reverse else 1]
    noise = np.concatenate([cases.random(rng, n, dtype.startswith("c")) for _ in range(5)])
    a = (d[:, None] * (np.eye(n) + 0.3 * noise) * d).astype(dtype)
    with mpmath.workdps(60):
        exact = [
            sorted(float(x) for x in mpmath.eighe(mpmath.matrix(m.tolist()), eigvals_only=True))
            for m in a
        ]
    ours, theirs = (
        np.median(np.abs(kernels.eigvalsh(a, driver=driver).values / exact - 1).max(-1))
        for driver in ("lanes", "lapack")
    )
    assert ours <= max(0.01 * theirs if reverse else 6 * theirs, 50 * n * 2.0**-52)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("vectors", [True, False])
def test_every_size_and_the_same_bits_from_every_instruction_set(dtype: str, vectors: bool) -> None:
    for n in range(1, 71):
        a = random(n, dtype, 7)
        wide = np.result_type(dtype, np.float64)
        found = solve(a, vectors=vectors)
        assert (found.status == Status.ok).all() and found.residual.max() < 15
        reference = np.linalg.eigvalsh(a.astype(wide))
        error = np.abs(found.values - reference).max(-1) / np.abs(reference).max(-1)
        assert error.max() <= 12 * max(n, 4) ** 0.5 * np.finfo(dtype).eps
        for isa in lanes.SETS[1:]:
            assert cases.bits(solve(a, vectors=vectors, isa=isa)) == cases.bits(found), (n, isa)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("family", cases.FAMILIES, ids=lambda f: f.__name__)
def test_same_bits_on_hard_matrices(family: Any, dtype: str) -> None:
    for n in (2, 3, 4, 8, 33):
        a = cases.Case(family, n, dtype).build()
        hard = np.concatenate([a, random(n, dtype, 4), a * a.real.dtype.type(2.0**80), a[::-1]])
        found = solve(hard)
        for isa in lanes.SETS[1:]:
            assert cases.bits(solve(hard, isa=isa)) == cases.bits(found)
        for i in range(len(hard)):
            assert cases.bits(solve(hard[i : i + 1])) == cases.bits(x[i : i + 1] for x in found)


@pytest.mark.parametrize("case", [c for c in cases.CASES if c.n in (1, 3, 8, 33)], ids=str)
def test_the_proof_is_that_of_verify(case: cases.Case) -> None:
    a = case.build()
    for vectors in (True, False):
        found = kernels.eigh(a, driver="lanes", vectors=vectors)
        again = kernels.verify(a, found.values, found.vectors)
        assert found.residual.tobytes() == again.tobytes()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 40])
def test_neighbours_and_position_do_not_matter(n: int, dtype: str) -> None:
    a = random(n, dtype, 75)
    whole = solve(a)
    noisy = a.copy()
    noisy[::3] = np.nan
    noisy[1::3] = cases.Case(cases.glued, n, dtype).build()[:1]
    for isa in lanes.SETS:
        found = solve(noisy, isa=isa)
        assert cases.bits(x[2::3] for x in found) == cases.bits(x[2::3] for x in whole)
        assert (found.status[::3] == Status.nonfinite).all() and np.isnan(found.vectors[::3]).all()
    for start in (1, 5, 38):
        assert cases.bits(solve(a[start:])) == cases.bits(x[start:] for x in whole)
    assert cases.bits(solve(a[::-1])) == cases.bits(x[::-1] for x in whole)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [2, 3, 9])
def test_any_strides(n: int, dtype: str) -> None:
    a = random(n, dtype, 40)
    whole = cases.bits(solve(a))
    wider = np.zeros((40, n + 1, 2 * n), dtype)
    wider[:, :n, ::2] = a
    assert cases.bits(solve(wider[:, :n, ::2])) == whole
    columns = np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)
    assert cases.bits(solve(columns)) == whole
    assert cases.bits(solve(columns, triangle=primitives.UPPER)) == whole
    assert cases.bits(solve(a, triangle=primitives.BOTH, tolerance=0.0)) == whole


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("check", ["probe", "full", "off"])
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [2, 3, 4, 12])
def test_what_does_not_converge_goes_to_lapack(
    n: int, dtype: str, check: Any, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = random(n, dtype, 20)
    a[7] = np.eye(n)  # needs no sweep
    a[3, 1, 0] = np.inf
    clean = kernels.eigh(a, vectors=vectors)
    assert clean.status.tolist() == [0] * 3 + [Status.nonfinite] + [0] * 16
    monkeypatch.setattr(lanes, "solve", functools.partial(lanes.solve, sweeps=0))
    found = kernels.eigh(a, vectors=vectors, check=check)
    good = Status.unchecked if check == "off" else Status.repaired
    rest = Status.unchecked if check == "off" else Status.ok
    expected = [good] * 20
    expected[3], expected[7] = Status.nonfinite, rest
    assert found.status.tolist() == [rest if s == Status.unchecked else s for s in expected]
    keep = np.arange(20) != 3
    apart = np.abs(found.values[keep] - clean.values[keep]).max()
    assert apart <= 30 * np.finfo(dtype).eps * np.abs(clean.values[keep]).max()
    unrepaired = kernels.eigh(a, vectors=vectors, check=check, repair=False)
    assert (unrepaired.status[keep & (np.arange(20) != 7)] == Status.failed).all()
    assert np.isnan(unrepaired.values[0]).all()


def test_one_sweep_is_not_enough_and_says_so() -> None:
    found = solve(random(12, "float64", 30), sweeps=1, probe=False)
    assert Status.failed in found.status
    failed = found.status == Status.failed
    assert np.isnan(found.values[failed]).all() and np.isnan(found.vectors[failed]).all()


def test_values_beyond_the_range_fail() -> None:
    for n in (2, 4, 6):
        found = solve(np.full((3, n, n), 1.7e308), probe=False)
        assert (found.status == Status.failed).all() and np.isnan(found.values).all()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_bits(data: Any) -> None:
    """Whatever the neighbours hold, a good matrix keeps its bits; bad ones get LAPACK's status."""
    dtype = data.draw(st.sampled_from(cases.DTYPES))
    n = data.draw(st.integers(1, 9))
    triangle = data.draw(st.sampled_from(["lower", "upper", "strict", "average"]))
    vectors = data.draw(st.booleans())
    seed = data.draw(st.integers(0, 2**32 - 1))
    size = 9 * n * n * np.dtype(dtype).itemsize
    noise = np.frombuffer(np.random.default_rng(seed).bytes(size), dtype).reshape(9, n, n)
    a = np.concatenate([noise, random(n, dtype, 2), np.zeros((1, n, n), dtype)])
    with np.errstate(all="ignore"):
        for huge in (noise, a):
            found = kernels.eigh(
                huge, hermitian=triangle, driver="lanes", vectors=vectors, threads=1
            )
            lapack = kernels.eigh(
                huge, hermitian=triangle, driver="lapack", vectors=vectors, threads=1
            )
            refused = [Status.nonfinite, Status.not_hermitian]
            assert (np.isin(found.status, refused) == np.isin(lapack.status, refused)).all()
            assert (np.isnan(found.values).all(-1) == (found.status > Status.repaired)).all()
    alone = kernels.eigh(a[9:], hermitian=triangle, driver="lanes", vectors=vectors)
    assert cases.bits(x if x is None else x[9:] for x in found) == cases.bits(alone)


def test_unknown_set_and_too_large_are_misuse() -> None:
    with pytest.raises(ValueError, match="instruction set"):
        solve(random(3, "float64", 2), isa="z80")
    with pytest.raises(ValueError, match="n <= 256"):
        kernels.eigh(np.eye(300), driver="lanes")
