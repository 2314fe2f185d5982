"""Any bit pattern as a matrix: no crash, no hang, no warning, and the status that it calls for."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

import kernels_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kernels
from kernels import Status, subset

COUNT = 3
GOOD = (Status.ok, Status.repaired, Status.unchecked)
bits = settings(max_examples=150, deadline=10_000)  # ms: nothing hangs


@st.composite
def stacks(draw: Any, dtype: str, n: int) -> Any:
    """(COUNT, n, n) of arbitrary bits, or of the numbers that hypothesis holds for nasty."""
    real = np.finfo(dtype).dtype
    kind = draw(st.sampled_from([real, np.dtype(f"u{real.itemsize}")]))
    shape = (COUNT, n, n * (np.dtype(dtype).itemsize // real.itemsize))
    return draw(hnp.arrays(kind, shape, elements=hnp.from_dtype(kind))).view(dtype)


@st.composite
def options(draw: Any, n: int) -> dict[str, Any]:
    """Any way to ask."""
    lo = draw(st.integers(0, n - 1))
    return {
        "hermitian": draw(st.sampled_from(["lower", "upper", "strict", "average"])),
        "vectors": draw(st.booleans()),
        "subset": draw(st.sampled_from([None, (lo, draw(st.integers(lo + 1, n)))])),
        "driver": draw(st.sampled_from(["auto", "lapack"])),
        "check": draw(st.sampled_from(["probe", "full", "off"])),
        "repair": draw(st.booleans()),
        "threads": 1,
    }


def is_read(a: Any, hermitian: str) -> tuple[Any, Any]:
    """Which real and which imaginary parts count."""
    n = a.shape[-1]
    every = np.ones((n, n), bool)
    if hermitian in ("strict", "average"):
        return every, every
    part = np.tril(every) if hermitian == "lower" else np.triu(every)
    return part, part & ~np.eye(n, dtype=bool)


def is_finite(a: Any, hermitian: str) -> Any:
    re, im = is_read(a, hermitian)
    return ((np.isfinite(a.real) | ~re) & (np.isfinite(a.imag) | ~im)).all((-1, -2))


def peak(a: Any, hermitian: str) -> Any:
    """The largest part that is read, of finite matrices."""
    re, im = is_read(a, hermitian)
    parts = np.where(re, np.abs(a.real), 0), np.where(im, np.abs(a.imag), 0)
    return np.maximum(*parts).max((-1, -2))


def skew(a: Any) -> Any:
    """The defect in units of the tolerance of strict, of finite matrices."""
    wide = a.astype(np.clongdouble)
    apart, largest = (np.abs(x).max((-1, -2)) for x in (wide - wide.conj().swapaxes(-1, -2), wide))
    unit = 100 * a.shape[-1] * np.finfo(a.dtype).eps
    return (apart / np.where(largest > 0, largest, 1) / unit).astype(float)


def check_answer(found: Any, how: dict[str, Any]) -> Any:
    """What holds whatever the content: an answer is whole and proved, or there is none."""
    good = np.isin(found.status, GOOD)
    for x in (found.values, *([found.vectors] if how["vectors"] else [])):
        axes = tuple(range(1, x.ndim))
        assert (np.isfinite(x).all(axes) == good).all() and (np.isnan(x).all(axes) == ~good).all()
    assert (np.diff(found.values[good]) >= 0).all()
    unchecked = found.status == Status.unchecked
    assert (how["check"] == "off") == unchecked.any() or not good.any()
    assert (found.residual[good & ~unchecked] <= kernels.THRESHOLD).all()
    return good


def expect(a: Any, how: dict[str, Any]) -> tuple[Any, Any]:
    """Where a is finite, and its defect."""
    finite = is_finite(a, how["hermitian"])
    defect = np.zeros(len(a))
    if how["hermitian"] == "strict":
        defect[finite] = skew(a[finite])
    return finite, defect


def check_refusals(status: Any, finite: Any, defect: Any) -> Any:
    """What must not reach a solver has its status; return what must not be refused."""
    assert ((status == Status.nonfinite) == ~finite).all()
    assert (status[finite & (defect > 1.1)] == Status.not_hermitian).all()
    rest = finite & (defect < 0.9)
    assert (status[rest] != Status.not_hermitian).all()
    return rest


@given(st.data())
@bits
def test_a_matrix(data: Any) -> None:
    dtype, n = data.draw(st.sampled_from(cases.DTYPES)), data.draw(st.integers(1, 6))
    a, how = data.draw(stacks(dtype, n)), data.draw(options(n))
    few = mock.patch.object(subset, "is_few", lambda n, pairs, dtype, vectors: vectors)
    with few if data.draw(st.booleans()) else contextlib.nullcontext():
        found = kernels.eigh(a, **how)
    good, rest = check_answer(found, how), check_refusals(found.status, *expect(a, how))
    beyond = peak(a[rest], how["hermitian"]) > np.finfo(dtype).max / (4 * n)
    if how["repair"]:
        assert (good[rest] | beyond).all()
    assert np.isin(found.status[rest & ~good], [Status.failed]).all()


@given(st.data())
@bits
def test_a_pencil(data: Any) -> None:
    dtype, n = data.draw(st.sampled_from(cases.DTYPES)), data.draw(st.integers(1, 5))
    a, b, how = data.draw(stacks(dtype, n)), data.draw(stacks(dtype, n)), data.draw(options(n))
    diagonal = b.real[:, range(n), range(n)]
    if positive := data.draw(st.booleans()):  # definite, though the scales of its rows differ
        wide = float(np.finfo(dtype).max) ** 0.4
        diagonal = np.where((diagonal > 1 / wide) & (diagonal < wide), diagonal, 1)
        b = np.zeros_like(b)
        b[:, range(n), range(n)] = diagonal
    found = kernels.eigh(a, b=b, **how)
    check_answer(found, how)
    (finite, defect), (finite_b, defect_b) = expect(a, how), expect(b, how)
    rest = check_refusals(found.status, finite & finite_b, np.maximum(defect, defect_b))
    refused = found.status == Status.not_positive_definite
    if positive:
        assert not refused.any()
    else:
        assert refused[rest & (diagonal <= 0).any(-1)].all()


def noise(n: int, dtype: str, tame: float) -> Any:
    """Random bits, but for a share of numbers, and then the diagonal, that are tame."""
    rng = np.random.default_rng(n)
    raw = np.frombuffer(rng.bytes(40 * n * n * np.dtype(dtype).itemsize), dtype)
    a = raw.reshape(40, n, n).copy()
    a[rng.random(a.shape) < tame] = 1.5
    if tame:
        a[:, range(n), range(n)] = 4.0 * n
    return a


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 33, 80])
def test_noise(n: int, dtype: str, vectors: bool) -> None:
    """At every class of sizes, in every way: what hypothesis is too slow for."""
    for tame in (0.0, 0.999):
        a = noise(n, dtype, tame)
        finite = is_finite(a, "lower")
        for more in ({}, {"subset": (0, max(1, n // 10))}, {"b": a}, {"driver": "lapack"}):
            how: dict[str, Any] = {"vectors": vectors, "check": "probe", **more}
            found = kernels.eigh(a, **how)
            check_answer(found, how)
            assert ((found.status == Status.nonfinite) == ~finite).all()
