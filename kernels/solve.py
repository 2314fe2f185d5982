"""`eigh` and `eigvalsh`: scan, solve, prove, repair, for every matrix on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels import lapack, primitives
from kernels.arguments import (
    Array,
    Check,
    Hermitian,
    Stack,
    as_matrices,
    check_choice,
    check_subset,
    check_threads,
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


@dataclass(frozen=True)
class _Options:
    triangle: int
    tolerance: float  # infinite where the defect is not looked at
    check: str
    repair: bool
    pairs: slice


@dataclass(frozen=True)
class _Answer:
    """Arrays of a stack, flat over the batch; a piece of one is a view."""

    values: Array
    vectors: Array | None
    residual: Array
    status: Array

    @classmethod
    def empty(cls, stack: Stack, pairs: int, vectors: bool) -> _Answer:
        count, n = stack.count, stack.item[0]
        return cls(
            np.empty((count, pairs), stack.dtype.char.lower()),
            np.empty((count, n, pairs), stack.dtype) if vectors else None,
            np.empty(count, np.float32),
            np.empty(count, np.uint8),
        )

    def __getitem__(self, rows: Any) -> _Answer:
        vectors = None if self.vectors is None else self.vectors[rows]
        return _Answer(self.values[rows], vectors, self.residual[rows], self.status[rows])

    def put(self, rows: Any, other: _Answer, pairs: slice = slice(None)) -> None:
        self.values[rows] = other.values[:, pairs]
        if self.vectors is not None and other.vectors is not None:
            self.vectors[rows] = other.vectors[:, :, pairs]
        self.residual[rows], self.status[rows] = other.residual, other.status

    def blank(self, rows: Array) -> None:
        """NaN in values and vectors; the residual found stays."""
        self.values[rows] = np.nan
        if self.vectors is not None:
            self.vectors[rows] = np.nan


def eigh(
    a: Any,
    *,
    vectors: bool = True,
    subset: Sequence[int | None] | None = None,
    hermitian: Hermitian = "lower",
    hermitian_tol: float | None = None,
    driver: str = "auto",
    check: Check = "probe",
    repair: bool = True,
    threads: int | None = None,
) -> Eigen:
    """Eigenvalues and eigenvectors of every matrix of a stack, each one proved.

    Never raises for what a matrix contains, never lets one matrix touch another, and leaves
    global random and thread state as found. On the CPU the answer to a matrix depends on that
    matrix alone, bit for bit: not on the batch, the position in it, or `threads`.

    Parameters
    ----------
    a : (..., n, n) numpy.ndarray or torch.Tensor
        float32, float64, complex64 or complex128; any strides; n >= 1; empty batches are fine.
        A tensor that requires grad is refused (gradients are not supported yet).
    vectors : bool
        Whether vectors are wanted.
    subset : [lo, hi), optional
        Indices into the ascending spectrum, negatives from the top; None is an open end.
    hermitian : "lower", "upper", "strict" or "average"
        Read one triangle, as LAPACK does (an imaginary diagonal is ignored); or look at both:
        "strict" flags max|A - A^H| / max|A| above `hermitian_tol` as not_hermitian, and both then
        solve (A + A^H) / 2.
    hermitian_tol : float, optional
        For "strict"; default 100 n eps of the dtype of `a`.
    driver : str
        "auto" (see `choose_driver`) or "lapack".
    check : "probe", "full" or "off"
        How each answer is proved; see `verify`. "off" gives status unchecked, residual NaN.
    repair : bool
        Whether an answer that fails is sought again by another route (double precision for
        single, QL iteration for double).
    threads : int, optional
        Threads that share the batch; each matrix has one. None: `torch.get_num_threads()`.

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
    stack = as_matrices(a, "kernels.eigh")
    n = stack.item[0]
    check_driver(driver, n, stack.dtype, stack.device or "cpu", vectors)
    options = _read_options(stack, subset, hermitian, hermitian_tol, check, repair)
    answer = _Answer.empty(stack, options.pairs.stop - options.pairs.start, vectors)
    workers = check_threads(threads)
    pieces = list(stack.pieces(workers))

    def work(bounds: tuple[int, int]) -> None:
        _solve_piece(stack.take(*bounds), options, answer[slice(*bounds)])

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
    subset: Sequence[int | None] | None = None,
    hermitian: Hermitian = "lower",
    hermitian_tol: float | None = None,
    driver: str = "auto",
    check: Check = "probe",
    repair: bool = True,
    threads: int | None = None,
) -> Eigen:
    """Eigenvalues of every matrix of a stack: `eigh` with vectors=False."""
    return eigh(
        a,
        vectors=False,
        subset=subset,
        hermitian=hermitian,
        hermitian_tol=hermitian_tol,
        driver=driver,
        check=check,
        repair=repair,
        threads=threads,
    )


def _read_options(
    stack: Stack, subset: Any, hermitian: str, tolerance: float | None, check: str, repair: bool
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
    return _Options(_TRIANGLES[hermitian], float(tolerance), check, repair, check_subset(subset, n))


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
    """Solve `a` (count, n, n) into `answer`, a subset of the pairs by way of the whole spectrum."""
    if options.pairs == slice(0, a.shape[-1]):
        _solve_all(a, options, answer)
        return
    vectors = None if answer.vectors is None else np.empty_like(a, order="C")
    values = np.empty(a.shape[:2], answer.values.dtype)
    whole = _Answer(values, vectors, answer.residual, answer.status)
    _solve_all(a, options, whole)
    answer.put(slice(None), whole, options.pairs)


def _solve_all(a: Array, options: _Options, answer: _Answer) -> None:
    exponent = _examine(a, options, answer.status)
    tried = answer.status == Status.unchecked
    lapack.solve(a, options.triangle, exponent, ~tried, answer.values, answer.vectors)
    if options.check == "off":
        answer.residual[:] = np.nan
        lost = tried & ~np.isfinite(answer.values).all(-1)
    else:
        _prove(a, options, exponent, answer)
        answer.status[tried] = Status.ok
        lost = tried & ~(answer.residual <= THRESHOLD)
        if options.repair and lost.any():
            lost[lost] = ~_repair(a, options, exponent, answer, np.flatnonzero(lost))
    if lost.any():
        answer.status[lost] = Status.failed
        answer.blank(lost)


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


def _repair(a: Array, options: _Options, exponent: Array, answer: _Answer, rows: Array) -> Array:
    """Solve `rows` again by another route and keep what is better; return which now pass."""
    a, exponent, before = a[rows], exponent[rows], answer[rows]
    vectors = None if before.vectors is None else np.empty_like(before.vectors)
    again = _Answer(
        np.empty_like(before.values),
        vectors,
        np.empty_like(before.residual),
        np.full_like(before.status, Status.repaired),
    )
    skip = np.zeros(len(a), bool)
    lapack.solve(a, options.triangle, exponent, skip, again.values, vectors, repair=True)
    _prove(a, options, exponent, again)
    better = again.residual < np.where(np.isnan(before.residual), np.inf, before.residual)
    better |= np.isnan(before.residual)
    answer.put(rows[better], again[better])
    return np.asarray(better & (again.residual <= THRESHOLD))
