"""A solver that errs is caught, tried again by another route, and flagged if that fails too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import kernels_cases as cases
import numpy as np
import pytest

import kernels
from kernels import Status, primitives

BAD = 3
eigh = functools.partial(kernels.eigh, driver="lapack")


def spoil(first: Callable[..., None], second: Callable[..., None] | None = None) -> Any:
    """The real solver, its answers spoilt: at the first attempt, and at the repair."""
    solve = primitives.lapack

    def lapack(*arguments: Any) -> None:
        solve(*arguments)
        divide, in_double, values, vectors, failed = arguments[5:]
        repairing = in_double or not divide
        if not repairing:
            first(values, vectors, failed, BAD)
        elif second is not None:
            assert len(values) == 1
            second(values, vectors, failed, 0)

    return lapack


def wrong_value(values: Any, vectors: Any, failed: Any, at: int) -> None:
    values[at, 1] += 0.01 * np.abs(values[at]).max()


def wrong_vector(values: Any, vectors: Any, failed: Any, at: int) -> None:
    if vectors is not None:
        vectors[at, :, 0] *= 1.01
    else:
        values[at, 0] -= 0.01 * np.abs(values[at]).max()


def not_converged(values: Any, vectors: Any, failed: Any, at: int) -> None:
    failed[at], values[at] = True, np.nan
    if vectors is not None:
        vectors[at] = np.nan


ERRORS = [wrong_value, wrong_vector, not_converged]


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_repaired(
    dtype: str, error: Any, vectors: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.concatenate([cases.Case(cases.random, 5, dtype).build()] * 2)
    a *= np.finfo(dtype).dtype.type(2.0 ** np.frexp(scale)[1])
    clean = eigh(a, vectors=vectors)
    monkeypatch.setattr(primitives, "lapack", spoil(error))
    found = eigh(a, vectors=vectors)
    assert found.status.tolist() == [0, 0, 0, Status.repaired, 0, 0]
    assert found.residual.max() < 15
    eps = np.finfo(dtype).eps
    peak = np.abs(clean.values).max()
    assert np.abs(found.values - clean.values).max() <= 5 * 5 * eps * peak
    keep = np.arange(6) != BAD
    assert cases.bits(None if x is None else x[keep] for x in found) == cases.bits(
        None if x is None else x[keep] for x in clean
    )


@pytest.mark.parametrize("second", ERRORS)
@pytest.mark.parametrize("first", ERRORS)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_failed(dtype: str, first: Any, second: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.concatenate([cases.Case(cases.random, 5, dtype).build()] * 2)
    monkeypatch.setattr(primitives, "lapack", spoil(first, second))
    found = eigh(a, subset=(0, 2))
    assert found.status.tolist() == [0, 0, 0, Status.failed, 0, 0]
    assert np.isnan(found.values[BAD]).all() and np.isnan(found.vectors[BAD]).all()
    lost = first is second is not_converged
    assert np.isnan(found.residual[BAD]) if lost else found.residual[BAD] > kernels.THRESHOLD


def test_without_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.concatenate([cases.Case(cases.random, 5, "float64").build()] * 2)
    monkeypatch.setattr(primitives, "lapack", spoil(wrong_value))
    found = eigh(a, repair=False)
    assert found.status.tolist() == [0, 0, 0, Status.failed, 0, 0]
    assert found.residual[BAD] > kernels.THRESHOLD and np.isnan(found.values[BAD]).all()


def test_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.concatenate([cases.Case(cases.random, 5, "float64").build()] * 2)
    a[0, 2, 1] = np.nan
    monkeypatch.setattr(primitives, "lapack", spoil(not_converged))
    found = eigh(a, check="off")
    assert found.status.tolist() == [2, 9, 9, Status.failed, 9, 9]
    assert np.isnan(found.residual).all() and np.isfinite(found.values[1]).all()
    assert np.isnan(found.values[BAD]).all() and np.isnan(found.vectors[BAD]).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("vectors", [True, False])
def test_the_other_route_is_sound(
    dtype: str, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QL iteration for every matrix of the table of one size."""

    def everything(values: Any, vectors: Any, failed: Any, at: int) -> None:
        values[:] += 0.5 * (1 + np.abs(values))

    monkeypatch.setattr(primitives, "lapack", spoil(everything))
    monkeypatch.setattr("kernels.piece.THRESHOLD", 20.0)
    for family in cases.FAMILIES:
        if family is not cases.zero:
            found = eigh(cases.Case(family, 16, dtype).build(), vectors=vectors)
            assert (found.status == Status.repaired).all() and found.residual.max() < 10
