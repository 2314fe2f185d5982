"""A x = lambda B x with B positive definite: to C = L^-1 A L^-H and back, and the other route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kernels import primitives
from kernels.answer import Answer, Options
from kernels.arguments import Array
from kernels.residual import Precision, probe_vector
from kernels.result import THRESHOLD, Status


class Reduction(NamedTuple):
    """What became of a stack of pencils; rows that are not `definite` hold NaN."""

    matrices: Array  # C of the scaled pencil, of the dtype of a
    factor: Array  # L, in double
    power_a: Array  # the powers of two taken out of A and, even, of B
    power_b: Array
    defect: Array  # |L C L^H x - A x| and |L L^H x - B x|, in units of n eps
    largest: Array  # max|c|, which max|lambda| of the scaled pencil reaches
    definite: Array


def reduce(a: Array, b: Array, triangle: int, skip: Array, *, prove: bool = True) -> Reduction:
    """Factor each B and reduce each A of (count, n, n), in double, scaled by powers of two.

    B is taken for positive definite if each pivot of its Cholesky factorisation is above n eps
    times the entry of the diagonal that it came from: a test that no scaling of rows changes.
    Without `prove` there is no defect, and no largest part of C.
    """
    count, n = a.shape[:2]
    wide = np.result_type(a.dtype, np.float64)
    found = Reduction(
        np.full((count, n, n), np.nan, a.dtype),
        np.zeros((count, n, n), wide),
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        np.full(count, np.nan),
        np.zeros(count),
        np.zeros(count, bool),
    )
    x = probe_vector(n, a.dtype.kind == "c") if prove else None
    eps = Precision.of(a.dtype).eps
    primitives.pencil_reduce(a, b, triangle, skip, x, eps, *found)
    return found


def restore(found: Reduction, values: Array, vectors: Array | None) -> None:
    """Turn the values and vectors of C, in place, into those of the pencil."""
    primitives.pencil_back(found.factor, found.power_a, found.power_b, values, vectors)
    if vectors is not None:
        primitives.gauge(vectors)


def to_reduced(found: Reduction, values: Array) -> Array:
    """The values of the pencil as values of C; exact, being a power of two."""
    shift = found.power_b - found.power_a
    half = shift // 2
    with np.errstate(over="ignore", under="ignore"):
        for part in (half, shift - half):
            values = values * np.ldexp(1.0, part).astype(values.dtype)[:, None]
    return values


def measure(
    a: Array,
    b: Array,
    triangle: int,
    values: Array,
    vectors: Array,
    precision: Precision,
    *,
    floor: Array | None = None,
    full: bool = False,
) -> Array:
    """Residuals (count,) float32 of pairs of (count, n, n) pencils; see docs/kernels.md.

    `floor`: `Reduction.largest`, wanted where the pairs are not all.
    """
    floor = np.zeros(len(a)) if floor is None else floor
    out = np.empty(len(a), np.float32)
    x = probe_vector(a.shape[-1], a.dtype.kind == "c")
    primitives.pencil_residual(a, b, triangle, values, vectors, floor, x, full, *precision, out)
    return out


def solve_again(a: Array, b: Array, triangle: int) -> tuple[Array, Array]:
    """All pairs by scipy's ?sygv or ?hegv (QL iteration) in double, one matrix at a time.

    Another library's reduction and another iteration; NaN where it fails.
    """
    import scipy.linalg

    count, n = a.shape[:2]
    values, vectors = np.full((count, n), np.nan, a.real.dtype), np.full(a.shape, np.nan, a.dtype)
    for row in range(count):
        (left, p), (right, q) = (_normalised(x[row], triangle) for x in (a, b))
        try:
            w, v = scipy.linalg.eigh(left, right, driver="gv", check_finite=False)
        except (np.linalg.LinAlgError, ValueError):
            continue
        with np.errstate(over="ignore", under="ignore"):
            values[row], vectors[row] = np.ldexp(w, p - q), _scaled(v, -q // 2)
    primitives.gauge(vectors)
    return values, vectors


def _normalised(a: Array, triangle: int) -> tuple[Array, int]:
    """The matrix that is solved, in double, times 2^-e with an even e; and e."""
    wide: Any = a.astype(np.result_type(a.dtype, np.float64))
    peak = max(np.abs(wide.real).max(), np.abs(wide.imag).max())
    e = int(np.frexp(peak)[1])
    e += e % 2
    wide = _scaled(wide, -e)
    if triangle == primitives.BOTH:
        return (wide + wide.conj().T) / 2, e
    low = np.tril(wide, -1) if triangle == primitives.LOWER else np.triu(wide, 1).conj().T
    return low + low.conj().T + np.diag(np.diagonal(wide).real), e


def _scaled(a: Array, exponent: int) -> Array:
    half = exponent // 2
    power = np.float64(1)
    scaled: Array = a * np.ldexp(power, half) * np.ldexp(power, exponent - half)
    return scaled


def solve_piece(
    a: Array,
    b: Array,
    options: Options,
    answer: Answer,
    solve: Callable[[Array, Options, Answer], None],
) -> None:
    """Solve the pencils (count, n, n) into `answer`; `solve` solves the reduced matrices."""
    _examine(a, b, options, answer.status)
    skip = answer.status != Status.unchecked
    inner_check = _inner_check(a, options, answer)
    found = reduce(a, b, options.triangle, skip, prove=inner_check != "off")
    answer.status[~skip & ~found.definite] = Status.not_positive_definite
    tried = answer.status == Status.unchecked
    inner = options._replace(triangle=primitives.LOWER, tolerance=np.inf, check=inner_check)
    part = replace(answer, residual=np.empty_like(answer.residual), status=answer.status.copy())
    solve(found.matrices, inner, part)
    restore(found, answer.values, answer.vectors)
    answer.blank(~tried)
    lost = _judge(a, b, options, answer, found, part, tried)
    if options.repair and lost.any():
        lost[lost] = ~_repair(a, b, options, answer, np.flatnonzero(lost))
    if lost.any():
        answer.status[lost] = Status.failed
        answer.blank(lost)


def _examine(a: Array, b: Array, options: Options, status: Array) -> None:
    """Write what must not reach a solver into `status`."""
    count = len(a)
    status[:] = Status.unchecked
    bad = np.zeros(count, bool)
    for x in (a, b):
        finite, defect, exponent = np.empty(count, bool), np.empty(count), np.empty(count, np.int32)
        primitives.scan(x, options.triangle, finite, exponent, defect)
        status[defect > options.tolerance] = Status.not_hermitian
        bad |= ~finite
    status[bad] = Status.nonfinite


def _is_whole(a: Array, options: Options, answer: Answer) -> bool:
    """Whether the pairs of the pencil themselves prove everything: all of them, with vectors."""
    return answer.vectors is not None and options.pairs == slice(0, a.shape[-1])


def _inner_check(a: Array, options: Options, answer: Answer) -> str:
    if options.check == "off" or _is_whole(a, options, answer):
        return "off"
    return options.check


def _judge(
    a: Array,
    b: Array,
    options: Options,
    answer: Answer,
    found: Reduction,
    part: Answer,
    tried: Array,
) -> Array:
    """Prove what was tried, write residual and status, and return where it does not pass."""
    fine = tried & (part.status <= Status.repaired) | (tried & (part.status == Status.unchecked))
    answer.residual[:] = np.nan
    if options.check == "off":
        return np.asarray(tried & ~(fine & np.isfinite(answer.values).all(-1)))
    residual = np.zeros(len(a), np.float32)
    if answer.vectors is not None:
        full, precision = options.check == "full", Precision.of(a.dtype)
        floor = None if _is_whole(a, options, answer) else found.largest
        residual = measure(
            *(a, b, options.triangle, answer.values, answer.vectors, precision),
            floor=floor,
            full=full,
        )
    if not _is_whole(a, options, answer):
        # C is proved to have these pairs, and a probe that C is what A and B make of it
        residual = np.maximum(np.maximum(residual, part.residual), found.defect)
        residual[~np.isfinite(answer.values).all(-1)] = np.nan
    answer.residual[tried] = residual[tried]
    answer.status[tried] = Status.ok
    answer.status[tried & (part.status == Status.repaired)] = Status.repaired
    return np.asarray(tried & ~(fine & (answer.residual <= THRESHOLD)))


def _repair(a: Array, b: Array, options: Options, answer: Answer, rows: Array) -> Array:
    """Solve `rows` by the other route, prove all pairs, keep what is better; return what passes."""
    a, b, before = a[rows], b[rows], answer.residual[rows]
    values, vectors = solve_again(a, b, options.triangle)
    precision, full = Precision.of(a.dtype), options.check == "full"
    residual = measure(a, b, options.triangle, values, vectors, precision, full=full)
    better = ~np.isnan(residual) & ~(residual >= before)
    kept = rows[better]
    answer.values[kept] = values[better][:, options.pairs]
    if answer.vectors is not None:
        answer.vectors[kept] = vectors[better][:, :, options.pairs]
    answer.residual[kept] = residual[better]
    good = better & (residual <= THRESHOLD)
    answer.status[rows[good]] = Status.unchecked if options.check == "off" else Status.repaired
    return np.asarray(good)
