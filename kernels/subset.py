"""A few pairs of a large matrix: reduction, bisection, inverse iteration, and the index proved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernels import primitives
from kernels.arguments import Array
from kernels.residual import Precision, probe_vector
from kernels.result import THRESHOLD

SMALLEST, SHARE = 72, 0.25
SMALLEST_DOUBLE, SHARE_DOUBLE = 64, 0.1
"""Where a few pairs are found for themselves; measured by `scripts/bench.py subset`."""


def is_few(n: int, pairs: int, dtype: Any, vectors: bool) -> bool:
    """Whether `pairs` of n are found for themselves, not cut from the whole spectrum.

    The rule, constant within a release and the same for every driver: vectors are wanted, and the
    pairs are at most a quarter of all for n >= 72, or at most a tenth for n >= 64 in double
    precision. Values alone cost the reduction in any case, and the whole spectrum proves them by
    its sums.
    """
    double = np.dtype(dtype).char in "dD"
    early = double and n >= SMALLEST_DOUBLE and pairs <= SHARE_DOUBLE * n
    return bool(vectors and (early or (n >= SMALLEST and pairs <= SHARE * n)))


class Form(NamedTuple):
    """Tridiagonal forms of a stack: A 2^-power = Q T Q^H but for `defect`, in units of n eps."""

    entries: Array  # (count, 2 n): the diagonal, then the n - 1 entries beside it
    power: Array
    defect: Array


def solve(
    a: Array, triangle: int, skip: Array, pairs: slice, values: Array, vectors: Array | None
) -> Form:
    """Pairs lo to hi of (count, n, n) into `values` and `vectors`; NaN where skipped or failed."""
    count, n = a.shape[:2]
    form = Form(np.zeros((count, 2 * n)), np.zeros(count, np.int32), np.full(count, np.inf))
    failed = skip.copy()
    eps = Precision.of(a.dtype).eps
    x = probe_vector(n, a.dtype.kind == "c")
    lo = pairs.start
    primitives.few(a, triangle, skip, lo, x, eps, values, vectors, *form, failed)
    values[failed] = np.nan
    if vectors is not None:
        vectors[failed] = np.nan
        primitives.gauge(vectors)
    return form


def prove_index(form: Form, values: Array, lo: int, precision: Precision) -> Array:
    """Units (count,) that the index adds to the residual: of the form, or infinite if it is wrong.

    Each value must be the eigenvalue number lo + k of T within THRESHOLD units, by the inertia of
    T on both sides of it: a cluster narrower than that may be cut anywhere inside.
    """
    n = form.entries.shape[1] // 2
    unit, least = (THRESHOLD * n * x for x in precision)
    right = np.empty(len(values), bool)
    wide = values.astype(np.float64, copy=False)
    primitives.places(form.entries, form.power, wide, lo, unit, least, right)
    return np.where(right, form.defect, np.inf)


def find_form(a: Array, triangle: int) -> Form:
    """The tridiagonal forms of (count, n, n), to judge values that came from elsewhere."""
    nothing = np.empty((len(a), 0), a.real.dtype)
    return solve(a, triangle, np.zeros(len(a), bool), slice(0, 0), nothing, None)
