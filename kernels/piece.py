"""One piece of a stack: scanned, solved, proved, and what does not pass solved again."""

from __future__ import annotations

import numpy as np

from kernels import lanes, lapack, primitives
from kernels import subset as few
from kernels.answer import Answer, Options
from kernels.arguments import Array
from kernels.residual import Precision, measure
from kernels.result import THRESHOLD, Status

_SAFE_EXPONENT = {4: 30, 8: 240}
"""LAPACK sees magnitudes within 2^±this, by size of a real in bytes: its own scaling, by a factor
that is no power of two, then never acts, and squares stay in range."""

_FAILED = int(Status.failed)
"""numpy takes two microseconds to see the number in an Enum: much, for one small matrix."""


def solve(a: Array, options: Options, answer: Answer) -> None:
    """Solve `a` (count, n, n) into `answer`: the whole spectrum, a few pairs, or a slice."""
    n, pairs = a.shape[-1], options.pairs
    if pairs == slice(0, n):
        _solve_all(a, options, answer)
    elif few.is_few(n, pairs.stop - pairs.start, a.dtype, answer.vectors is not None):
        _solve_few(a, options, answer)
    else:
        _solve_slice(a, options, answer)


def _solve_slice(a: Array, options: Options, answer: Answer) -> None:
    vectors = None if answer.vectors is None else np.empty_like(a, order="C")
    values = np.empty(a.shape[:2], answer.values.dtype)
    whole = Answer(values, vectors, answer.residual, answer.status)
    _solve_all(a, options, whole)
    answer.put(slice(None), whole, options.pairs)


def _solve_few(a: Array, options: Options, answer: Answer) -> None:
    """The pairs alone, with their index proved; what does not pass by way of the whole spectrum."""
    exponent = _examine(a, options, answer.status)
    tried = answer.status == Status.unchecked
    form = few.solve(a, options.triangle, ~tried, options.pairs, answer.values, answer.vectors)
    lost = _judge(a, options, exponent, answer, tried)
    if options.check != "off":
        precision = Precision.of(a.dtype)
        index = few.prove_index(form, answer.values, options.pairs.start, precision)
        answer.residual[tried] = np.maximum(answer.residual, index)[tried]
        lost |= tried & ~(answer.residual <= THRESHOLD)
    if options.repair and lost.any():
        again = answer[lost]
        _solve_slice(a[lost], options, again)
        again.status[again.status == Status.ok] = Status.repaired
        answer.put(lost, again)
    elif lost.any():
        answer.status[lost] = Status.failed
        answer.blank(lost)


def _solve_all(a: Array, options: Options, answer: Answer) -> None:
    lost = (_solve_lanes if options.driver == "lanes" else _solve_lapack)(a, options, answer)
    if not np.count_nonzero(lost):
        return
    unproved = options.check == "off" and options.driver == "lapack"  # nothing left to try
    if options.repair and not unproved:
        lost[lost] = ~_repair(a, options, answer, np.flatnonzero(lost))
    answer.status[lost] = Status.failed
    answer.blank(lost)


def _solve_lapack(a: Array, options: Options, answer: Answer) -> Array:
    """Solve and prove every matrix; return where that failed."""
    exponent = _examine(a, options, answer.status)
    tried = answer.status == Status.unchecked
    lapack.solve(a, options.triangle, exponent, ~tried, answer.values, answer.vectors)
    return _judge(a, options, exponent, answer, tried)


def _solve_lanes(a: Array, options: Options, answer: Answer) -> Array:
    lanes.solve(
        a,
        options.triangle,
        options.tolerance,
        answer.values,
        answer.vectors,
        answer.residual,
        answer.status,
        probe=options.check == "probe",
        threads=options.threads,
    )
    lost = np.asarray(answer.status == _FAILED)
    if options.check == "full":
        tried = answer.status == Status.unchecked
        exponent = _examine(a, options, answer.status)
        lost |= _judge(a, options, exponent, answer, tried)
    return lost


def _judge(a: Array, options: Options, exponent: Array, answer: Answer, tried: Array) -> Array:
    """Prove what was tried, and return where it does not pass."""
    if options.check == "off":
        answer.residual[:] = np.nan
        return np.asarray(tried & ~np.isfinite(answer.values).all(-1))
    _prove(a, options, exponent, answer)
    answer.status[tried] = Status.ok
    return np.asarray(tried & ~(answer.residual <= THRESHOLD))


def _examine(a: Array, options: Options, status: Array) -> Array:
    """Write what must not reach a solver into `status`; return each matrix's scaling exponent."""
    finite, defect, exponent = np.empty(len(a), bool), np.empty(len(a)), np.empty(len(a), np.int32)
    primitives.scan(a, options.triangle, finite, exponent, defect)
    status[:] = Status.unchecked
    status[defect > options.tolerance] = Status.not_hermitian
    status[~finite] = Status.nonfinite
    safe = _SAFE_EXPONENT[a.real.itemsize]
    return np.where(np.abs(exponent) > safe, -exponent, np.int32(0))


def _prove(a: Array, options: Options, exponent: Array, answer: Answer) -> None:
    answer.residual[:] = measure(
        a,
        options.triangle,
        exponent,
        answer.values,
        answer.vectors,
        Precision.of(a.dtype),
        full=options.check == "full",
    )


def _repair(a: Array, options: Options, answer: Answer, rows: Array) -> Array:
    """Solve `rows` again by another route and keep what is better; return which now pass."""
    a, before = a[rows], answer[rows]
    vectors = None if before.vectors is None else np.empty_like(before.vectors)
    again = Answer(
        np.empty_like(before.values),
        vectors,
        np.empty_like(before.residual),
        np.empty_like(before.status),
    )
    exponent = _examine(a, options, again.status)
    skip, other = np.zeros(len(a), bool), options.driver == "lapack" or a.dtype.char in "fF"
    lapack.solve(a, options.triangle, exponent, skip, again.values, vectors, repair=other)
    if options.check == "off":
        found = np.isfinite(again.values).all(-1)
        again.status[:], again.residual[:] = Status.unchecked, np.nan
        answer.put(rows[found], again[found])
        return np.asarray(found)
    _prove(a, options, exponent, again)
    again.status[:] = Status.repaired
    better = again.residual < np.where(np.isnan(before.residual), np.inf, before.residual)
    better |= np.isnan(before.residual)
    answer.put(rows[better], again[better])
    return np.asarray(better & (again.residual <= THRESHOLD))
