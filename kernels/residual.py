"""How wrong an answer is: the residual in units of n eps, and the fixed vector that probes it."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from kernels import primitives
from kernels.arguments import Array, Stack, as_matrices, as_stack, check_choice

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
    a: Any, values: Any, vectors: Any = None, *, mode: Literal["probe", "full"] = "probe"
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
    mode : "probe" or "full"
        One fixed vector, O(n m) a matrix, or Frobenius norms of the whole, O(n^2 m).

    Returns
    -------
    residual : (...) float32, of the kind of `a`
        NaN where the matrix or its answer is not finite. Above `kernels.THRESHOLD` it is wrong.

    Raises
    ------
    ValueError
        Shapes or dtypes that do not belong together.
    """
    check_choice("mode", mode, ("probe", "full"))
    matrices, lambdas = as_matrices(a, "verify: a"), as_stack(values, "verify: values", 1)
    columns = None if vectors is None else as_stack(vectors, "verify: vectors")
    _check_shapes(matrices, lambdas, columns)
    kinds = [s.dtype for s in (matrices, lambdas, columns) if s is not None]
    dtype = np.result_type(*kinds)
    precision = Precision.of(*kinds)
    out = np.empty(matrices.count, np.float32)
    for start, stop in matrices.pieces():
        piece = matrices.take(start, stop).astype(dtype, copy=False)
        out[start:stop] = measure(
            piece,
            primitives.LOWER,
            np.zeros(len(piece), np.int32),
            lambdas.take(start, stop).astype(piece.real.dtype, copy=False),
            None if columns is None else columns.take(start, stop).astype(dtype, copy=False),
            precision,
            full=mode == "full",
        )
    return matrices.give(out.reshape(matrices.batch))


def _check_shapes(a: Stack, values: Stack, vectors: Stack | None) -> None:
    n, m = a.item[0], values.item[0]
    problem = None
    if values.dtype.kind == "c":
        problem = f"got values of dtype {values.dtype}, expected real"
    elif values.batch != a.batch or m > n:
        problem = f"got values of shape {values.array.shape} for a of {a.array.shape}"
    elif vectors is None and m != n:
        problem = f"got {m} values without vectors, expected all {n}; pass the vectors too"
    elif vectors is not None and (vectors.batch != a.batch or vectors.item != (n, m)):
        problem = f"got vectors of shape {vectors.array.shape}, expected {(*a.batch, n, m)}"
    if problem:
        raise ValueError(f"verify: {problem}")
