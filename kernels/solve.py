"""`eigh` and `eigvalsh`: scan, solve, prove, repair, for every matrix on its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from kernels import composed, generalized, lanes, lapack, operators, primitives
from kernels import subset as few
from kernels.answer import Answer as _Answer
from kernels.answer import Options as _Options
from kernels.arguments import (
    CHUNK_BYTES,
    Array,
    Check,
    Degenerate,
    Hermitian,
    Stack,
    as_matrices,
    broadcast_pair,
    check_choice,
    check_subset,
    check_threads,
    check_width,
)
from kernels.drivers import check_driver
from kernels.residual import Precision, measure
from kernels.result import THRESHOLD, Eigen, Status

_TRIANGLES = {
    "lower": primitives.LOWER,
    "upper": primitives.UPPER,
    "strict": primitives.BOTH,
    "average": primitives.BOTH,
}
_SAFE_EXPONENT = {4: 30, 8: 240}
"""LAPACK sees magnitudes within 2^±this, by size of a real in bytes: its own scaling, by a factor
that is no power of two, then never acts, and squares stay in range."""


def eigh(
    a: Any,
    *,
    b: Any = None,
    vectors: bool = True,
    subset: Sequence[int | None] | None = None,
    hermitian: Hermitian = "lower",
    hermitian_tol: float | None = None,
    driver: str = "auto",
    check: Check = "probe",
    repair: bool = True,
    threads: int | None = None,
    degenerate: Degenerate = "error",
) -> Eigen:
    """Eigenvalues and eigenvectors of every matrix of a stack, each one proved.

    Never raises for what a matrix contains, never lets one matrix touch another, and leaves
    global random and thread state as found. On the CPU the answer to a matrix depends on that
    matrix alone, bit for bit: not on the batch, the position in it, or `threads`.

    Parameters
    ----------
    a : (..., n, n) numpy.ndarray or torch.Tensor
        float32, float64, complex64 or complex128; any strides; n >= 1; empty batches are fine.
        Differentiable in both modes, and an operator under vmap, compile and export.
    b : (..., n, n), optional
        Hermitian and positive definite, broadcast against `a` and of its kind: A x = lambda B x is
        solved, with X^H B X = 1. A B that is not positive definite to working precision is the
        status not_positive_definite. `hermitian` and `hermitian_tol` hold for both.
    vectors : bool
        Whether vectors are wanted.
    subset : [lo, hi), optional
        Indices into the ascending spectrum, negatives from the top; None is an open end. Few
        vectors of large matrices are found for themselves: see `kernels.subset.is_few`.
    hermitian : "lower", "upper", "strict" or "average"
        Read one triangle, as LAPACK does (an imaginary diagonal is ignored); or look at both:
        "strict" flags max|A - A^H| / max|A| above `hermitian_tol` as not_hermitian, and both then
        solve (A + A^H) / 2.
    hermitian_tol : float, optional
        For "strict"; default 100 n eps of the dtype of `a`.
    driver : str
        "auto" (see `choose_driver`), "lanes" or "lapack".
    check : "probe", "full" or "off"
        How each answer is proved; see `verify`. "off" gives status unchecked, residual NaN.
    repair : bool
        Whether an answer that fails is sought again by another route (double precision for
        single, QL iteration for double).
    threads : int, optional
        Threads that share the batch; each matrix has one. None: `torch.get_num_threads()`.
    degenerate : "error", "broaden" or float
        What becomes of the gradient of a loss that depends on the basis of equal eigenvalues: an
        error, or F = d / (d^2 + w^2) in place of 1 / d for all gaps d, with w in units of max|l|;
        "broaden" means eps^(1/3).

    Returns
    -------
    Eigen
        Of the kind of `a`. Rows that are not ok, repaired or unchecked hold NaN. Vectors are
        C-contiguous, of unit length; their signs or phases are LAPACK's (see `fix_gauge`).

    Raises
    ------
    ValueError
        For arguments that make no sense, before any work.
    """
    if degenerate != "error":
        check_width(degenerate, torch.float64)
    if b is not None and composed.is_followed(a, b):
        chosen = hermitian, hermitian_tol, driver, check, repair, threads
        return composed.eigh(a, b, vectors, subset, degenerate, chosen)
    if isinstance(a, torch.Tensor) and operators.is_followed(a):
        chosen = hermitian, hermitian_tol, driver, check, repair, threads
        return operators.eigh(a, vectors, subset, degenerate, chosen)
    return solve_stack(
        a,
        b=b,
        vectors=vectors,
        subset=subset,
        hermitian=hermitian,
        hermitian_tol=hermitian_tol,
        driver=driver,
        check=check,
        repair=repair,
        threads=threads,
    )


def solve_stack(
    a: Any,
    *,
    b: Any = None,
    vectors: bool,
    subset: Sequence[int | None] | None,
    hermitian: str,
    hermitian_tol: float | None,
    driver: str,
    check: str,
    repair: bool,
    threads: int | None,
) -> Eigen:
    """`eigh` of plain data, with its arguments; nothing that follows a tensor is looked at."""
    stack, metric = as_matrices(a, "kernels.eigh"), None
    if b is not None:
        stack, metric = broadcast_pair(stack, as_matrices(b, "kernels.eigh: b"))
    n = stack.item[0]
    driver = _find_driver(driver, n, stack.dtype, stack.device or "cpu", vectors)
    options = _read_options(stack, subset, hermitian, hermitian_tol, check, repair, driver)
    answer = _Answer.empty(stack, options.pairs.stop - options.pairs.start, vectors)
    workers = check_threads(threads)
    small = driver == "lapack" or metric is not None
    pieces = list(stack.pieces(workers, CHUNK_BYTES if small else lanes.CHUNK_BYTES))

    def work(bounds: tuple[int, int]) -> None:
        matrices, part = stack.take(*bounds), answer[slice(*bounds)]
        if metric is None:
            _solve_piece(matrices, options, part)
        else:
            b = metric.take(*bounds).astype(stack.dtype, copy=False)
            generalized.solve_piece(matrices, b, options, part, _solve_piece)

    _share(work, pieces, workers)
    batch, found = stack.batch, answer.vectors
    return Eigen(
        stack.give(answer.values.reshape(*batch, answer.values.shape[1])),
        None if found is None else stack.give(found.reshape(*batch, *found.shape[1:])),
        stack.give(answer.residual.reshape(batch)),
        stack.give(answer.status.reshape(batch)),
    )


def eigvalsh(
    a: Any,
    *,
    b: Any = None,
    subset: Sequence[int | None] | None = None,
    hermitian: Hermitian = "lower",
    hermitian_tol: float | None = None,
    driver: str = "auto",
    check: Check = "probe",
    repair: bool = True,
    threads: int | None = None,
    degenerate: Degenerate = "error",
) -> Eigen:
    """Eigenvalues of every matrix of a stack: `eigh` with vectors=False."""
    return eigh(
        a,
        b=b,
        vectors=False,
        subset=subset,
        hermitian=hermitian,
        hermitian_tol=hermitian_tol,
        driver=driver,
        check=check,
        repair=repair,
        threads=threads,
        degenerate=degenerate,
    )


_find_driver = functools.lru_cache(maxsize=1024)(check_driver)  # the rule never changes


def _read_options(
    stack: Stack,
    subset: Any,
    hermitian: str,
    tolerance: float | None,
    check: str,
    repair: bool,
    driver: str,
) -> _Options:
    check_choice("hermitian", hermitian, tuple(_TRIANGLES))
    check_choice("check", check, ("probe", "full", "off"))
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"hermitian_tol: got {tolerance!r}, expected a number >= 0, or None")
    n = stack.item[0]
    if hermitian != "strict":
        tolerance = np.inf
    elif tolerance is None:
        tolerance = 100 * n * float(np.finfo(stack.dtype).eps)
    pairs = check_subset(subset, n)
    return _Options(_TRIANGLES[hermitian], float(tolerance), check, repair, pairs, driver)


def _share(work: Callable[[tuple[int, int]], None], pieces: list[Any], workers: int) -> None:
    if workers == 1 or len(pieces) < 2:
        for piece in pieces:
            work(piece)
        return
    pool = ThreadPoolExecutor(min(workers, len(pieces)), thread_name_prefix="kernels")
    try:
        for _ in pool.map(work, pieces):
            pass
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _solve_piece(a: Array, options: _Options, answer: _Answer) -> None:
    """Solve `a` (count, n, n) into `answer`: the whole spectrum, a few pairs, or a slice."""
    n, pairs = a.shape[-1], options.pairs
    if pairs == slice(0, n):
        _solve_all(a, options, answer)
    elif few.is_few(n, pairs.stop - pairs.start, a.dtype, answer.vectors is not None):
        _solve_few(a, options, answer)
    else:
        _solve_slice(a, options, answer)


def _solve_slice(a: Array, options: _Options, answer: _Answer) -> None:
    vectors = None if answer.vectors is None else np.empty_like(a, order="C")
    values = np.empty(a.shape[:2], answer.values.dtype)
    whole = _Answer(values, vectors, answer.residual, answer.status)
    _solve_all(a, options, whole)
    answer.put(slice(None), whole, options.pairs)


def _solve_few(a: Array, options: _Options, answer: _Answer) -> None:
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


def _solve_all(a: Array, options: _Options, answer: _Answer) -> None:
    lost = (_solve_lanes if options.driver == "lanes" else _solve_lapack)(a, options, answer)
    unproved = options.check == "off" and options.driver == "lapack"  # nothing left to try
    if options.repair and not unproved and lost.any():
        lost[lost] = ~_repair(a, options, answer, np.flatnonzero(lost))
    if lost.any():
        answer.status[lost] = Status.failed
        answer.blank(lost)


def _solve_lapack(a: Array, options: _Options, answer: _Answer) -> Array:
    """Solve and prove every matrix; return where that failed."""
    exponent = _examine(a, options, answer.status)
    tried = answer.status == Status.unchecked
    lapack.solve(a, options.triangle, exponent, ~tried, answer.values, answer.vectors)
    return _judge(a, options, exponent, answer, tried)


def _solve_lanes(a: Array, options: _Options, answer: _Answer) -> Array:
    lanes.solve(
        a,
        options.triangle,
        options.tolerance,
        answer.values,
        answer.vectors,
        answer.residual,
        answer.status,
        probe=options.check == "probe",
    )
    lost = np.asarray(answer.status == Status.failed)
    if options.check == "full":
        tried = answer.status == Status.unchecked
        exponent = _examine(a, options, answer.status)
        lost |= _judge(a, options, exponent, answer, tried)
    return lost


def _judge(a: Array, options: _Options, exponent: Array, answer: _Answer, tried: Array) -> Array:
    """Prove what was tried, and return where it does not pass."""
    if options.check == "off":
        answer.residual[:] = np.nan
        return np.asarray(tried & ~np.isfinite(answer.values).all(-1))
    _prove(a, options, exponent, answer)
    answer.status[tried] = Status.ok
    return np.asarray(tried & ~(answer.residual <= THRESHOLD))


def _examine(a: Array, options: _Options, status: Array) -> Array:
    """Write what must not reach a solver into `status`; return each matrix's scaling exponent."""
    finite, defect, exponent = np.empty(len(a), bool), np.empty(len(a)), np.empty(len(a), np.int32)
    primitives.scan(a, options.triangle, finite, exponent, defect)
    status[:] = Status.unchecked
    status[defect > options.tolerance] = Status.not_hermitian
    status[~finite] = Status.nonfinite
    safe = _SAFE_EXPONENT[a.real.itemsize]
    return np.where(np.abs(exponent) > safe, -exponent, np.int32(0))


def _prove(a: Array, options: _Options, exponent: Array, answer: _Answer) -> None:
    answer.residual[:] = measure(
        a,
        options.triangle,
        exponent,
        answer.values,
        answer.vectors,
        Precision.of(a.dtype),
        full=options.check == "full",
    )


def _repair(a: Array, options: _Options, answer: _Answer, rows: Array) -> Array:
    """Solve `rows` again by another route and keep what is better; return which now pass."""
    a, before = a[rows], answer[rows]
    vectors = None if before.vectors is None else np.empty_like(before.vectors)
    again = _Answer(
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
