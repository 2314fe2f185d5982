"""How wrong an answer is: the residual in units of n eps, and the fixed vector that probes it."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from kernels import primitives
from kernels.arguments import (
    Array,
    Stack,
    as_matrices,
    as_stack,
    broadcast_pair,
    check_choice,
    check_subset,
)

_SEED = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Precision(NamedTuple):
    """The coarser of solving and storing: eps, and the spacing of stored values near zero."""

    eps: float
    quantum: float

    @classmethod
    def of(cls, *dtypes: np.dtype[Any]) -> Precision:
        single = any(d.char in "fF" for d in dtypes)
        return cls(2.0**-23, 2.0**-149) if single else cls(2.0**-52, 2.0**-1074)


class _SplitMix:
    """splitmix64 (Steele, Lea, Flood 2014), the generator that Java's SplittableRandom uses."""

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def unit(self) -> float:
        """In [0, 1), a multiple of 2^-53."""
        return (self.word() >> 11) * 2.0**-53


@functools.lru_cache(maxsize=64)
def probe_vector(n: int, is_complex: bool) -> Array:
    """The fixed probe: (2, n) float64, real and imaginary parts, moduli in [1, 2].

    splitmix64 seeded with 0x9E3779B97F4A7C15 + 2 n + is_complex. Each entry takes one number for
    the modulus 1 + u; then, real: the sign, from a word's lowest bit; complex: the direction of
    the first point (2 u - 1, 2 u' - 1) with modulus between 1/2 and 1. Only + - * / sqrt, so
    the same vector everywhere. float32 shares float64's vector, and complex64 complex128's.
    """
    random = _SplitMix(_SEED + 2 * n + is_complex)
    x = np.zeros((2, n))
    for k in range(n):
        modulus = 1.0 + random.unit()
        if not is_complex:
            x[0, k] = modulus if random.word() & 1 else -modulus
            continue
        while True:
            re, im = 2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0
            square = re * re + im * im
            if 0.25 <= square <= 1.0:
                break
        length = math.sqrt(square)
        x[:, k] = modulus * (re / length), modulus * (im / length)
    x.setflags(write=False)
    return x


def measure(
    a: Array,
    triangle: int,
    exponent: Array,
    values: Array,
    vectors: Array | None,
    precision: Precision,
    *,
    full: bool = False,
) -> Array:
    """Residuals (count,) float32 of (count, n, n) whose values are `values`.

    `exponent`: the power of two by which each matrix was multiplied before it was solved.
    """
    out = np.empty(len(a), np.float32)
    x = probe_vector(a.shape[-1], a.dtype.kind == "c")
    primitives.residual(a, triangle, exponent, values, vectors, x, full, *precision, out)
    return out


def verify(
    a: Any,
    values: Any,
    vectors: Any = None,
    *,
    b: Any = None,
    subset: Any = None,
    mode: Literal["probe", "full"] = "probe",
) -> Any:
    """How wrong eigenpairs are, in units of n eps; see docs/kernels.md for the definition.

    Parameters
    ----------
    a : (..., n, n)
        Hermitian matrices, numpy or torch; the lower triangle is read.
    values : (..., m) real
        Eigenvalues. Without vectors all n of them, ascending.
    vectors : (..., n, m), optional
        Eigenvectors in columns. Without them only the values' order, sum and sum of squares are
        proved: errors that compensate can pass up to about sqrt(n eps) of the norm.
    b : (..., n, n), optional
        The pairs are those of A x = lambda B x; broadcast against `a`, the lower triangle is read.
    subset : [lo, hi), optional
        Which pairs of the ascending spectrum these are said to be: if each value is not within
        THRESHOLD units of that eigenvalue, by the inertia of A on both sides of it, the residual
        is infinite. Costs a reduction to tridiagonal form. None: no index is looked at.
    mode : "probe" or "full"
        One fixed vector, O(n m) a matrix, or Frobenius norms of the whole, O(n^2 m).

    Returns
    -------
    residual : (...) float32, of the kind of `a`
        NaN where the matrix or its answer is not finite, or b not positive definite. Above
        `kernels.THRESHOLD` it is wrong.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not belong together.
    """
    check_choice("mode", mode, ("probe", "full"))
    matrices, lambdas = as_matrices(a, "verify: a"), as_stack(values, "verify: values", 1)
    columns = None if vectors is None else as_stack(vectors, "verify: vectors")
    metric = None
    if b is not None:
        matrices, metric = broadcast_pair(matrices, as_matrices(b, "verify: b"))
    _check_shapes(matrices, lambdas, columns, subset)
    kinds = [s.dtype for s in (matrices, lambdas, columns) if s is not None]
    dtype, precision = np.result_type(*kinds), Precision.of(*kinds)
    out = np.empty(matrices.count, np.float32)
    for start, stop in matrices.pieces():
        pencil = [
            s.take(start, stop).astype(dtype, copy=False)
            for s in (matrices, metric)
            if s is not None
        ]
        w = lambdas.take(start, stop).astype(pencil[0].real.dtype, copy=False)
        v = None if columns is None else columns.take(start, stop).astype(dtype, copy=False)
        out[start:stop] = _verify_piece(pencil, w, v, subset, precision, mode == "full")
    return matrices.give(out.reshape(matrices.batch))


def _verify_piece(
    pencil: list[Array],
    values: Array,
    vectors: Array | None,
    pairs: Any,
    how: Precision,
    full: bool,
) -> Array:
    """Residuals (count,) of pairs of A, or of A and B; and of their index if `pairs` is given."""
    from kernels import generalized, subset  # these need the probe and the precision from here

    a, none = pencil[0], np.zeros(len(pencil[0]), np.int32)
    if len(pencil) == 1:
        found = measure(a, primitives.LOWER, none, values, vectors, how, full=full)
    else:
        reduced = generalized.reduce(a, pencil[1], primitives.LOWER, none.astype(bool))
        scaled = generalized.to_reduced(reduced, values)
        if vectors is None:
            a = reduced.matrices
            found = measure(a, primitives.LOWER, none, scaled, None, how, full=full)
            found = np.maximum(found, reduced.defect).astype(np.float32)
        else:
            floor = reduced.largest if values.shape[1] < a.shape[1] else None
            found = generalized.measure(
                *(a, pencil[1], primitives.LOWER, values, vectors, how), floor=floor, full=full
            )
            found[~reduced.definite] = np.nan
        a, values = reduced.matrices, scaled
    if pairs is None:
        return found
    index = subset.prove_index(
        subset.find_form(a, primitives.LOWER), values, check_subset(pairs, a.shape[1]).start, how
    )
    return np.where(np.isnan(found), found, np.maximum(found, index))


def _check_shapes(a: Stack, values: Stack, vectors: Stack | None, subset: Any) -> None:
    n, m = a.item[0], values.item[0]
    pairs, problem = check_subset(subset, n), None
    if values.dtype.kind == "c":
        problem = f"got values of dtype {values.dtype}, expected real"
    elif values.batch != a.batch or m > n:
        problem = f"got values of shape {values.array.shape} for a of {a.array.shape}"
    elif vectors is None and m != n:
        problem = f"got {m} values without vectors, expected all {n}; pass the vectors too"
    elif vectors is not None and (vectors.batch != a.batch or vectors.item != (n, m)):
        problem = f"got vectors of shape {vectors.array.shape}, expected {(*a.batch, n, m)}"
    elif subset is not None and m != pairs.stop - pairs.start:
        problem = f"got {m} values for subset {subset!r}, expected {pairs.stop - pairs.start}"
    if problem:
        raise ValueError(f"verify: {problem}")
