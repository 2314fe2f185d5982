"""C++ kernels. Arrays of a batch come first; outputs are written in place."""

from typing import Any

import numpy as np
import numpy.typing as npt

def scan(
    a: npt.NDArray[Any],
    triangle: int,
    finite: npt.NDArray[np.bool_],
    exponent: npt.NDArray[np.int32],
    defect: npt.NDArray[np.float64],
) -> None:
    """For each matrix of (count, n, n): all finite; binary exponent; max|A - A^H| / max|A|.

    The exponent (frexp's) is that of the largest |re| or |im|, 0 if that is 0 or not finite.

    `triangle`: 0 lower, 1 upper, 2 both. Values in a triangle that is not read do not count.
    """

def lapack(
    a: npt.NDArray[Any],
    triangle: int,
    exponent: npt.NDArray[np.int32],
    skip: npt.NDArray[np.bool_],
    routine: int,
    divide: bool,
    in_double: bool,
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any] | None,
    failed: npt.NDArray[np.bool_],
) -> None:
    """Solve each matrix times 2^exponent with the routine at an address; scale values back.

    `divide`: ?syevd / ?heevd, else ?syev / ?heev. `in_double`: solve float32 or complex64 in
    double; the routine must be the one of the working precision. Skipped and failed: NaN.
    """

def lanes(
    a: npt.NDArray[Any],
    triangle: int,
    tolerance: float,
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any] | None,
    x: npt.NDArray[np.float64] | None,
    threshold: float,
    sweeps: int,
    residual: npt.NDArray[np.float32],
    status: npt.NDArray[np.uint8],
    isa: str,
    threads: int,
) -> None:
    """Scan, solve and prove each matrix, one in each SIMD lane, with the instructions `isa`.

    `tolerance`: of the defect, looked at where `triangle` is 2. `x`: the probe (2, n), or None for
    no proof. `sweeps` times n is the most QR sweeps. What is not ok or unchecked holds NaN; its
    status says nonfinite, not_hermitian or failed. The outputs are C-contiguous. `threads` share
    the matrices, as far as there is work for them.
    """

def lanes_sets() -> list[str]:
    """Instruction sets of `lanes` that are compiled in and that this CPU has, the widest first."""

def residual(
    a: npt.NDArray[Any],
    triangle: int,
    exponent: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any] | None,
    x: npt.NDArray[np.float64],
    full: bool,
    eps: float,
    quantum: float,
    out: npt.NDArray[np.float32],
) -> None:
    """Residual of each matrix in units of n eps, by the probe `x` (2, n), in full, or of values.

    `a` times 2^exponent is the matrix that was solved; `values` are those of `a`.
    """

def gauge(vectors: npt.NDArray[Any]) -> None:
    """Turn each column of (count, n, m), in place, so that its pivot is real and positive."""

def few(
    a: npt.NDArray[Any],
    triangle: int,
    skip: npt.NDArray[np.bool_],
    lo: int,
    x: npt.NDArray[np.float64],
    eps: float,
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any] | None,
    form: npt.NDArray[np.float64],
    power: npt.NDArray[np.int32],
    defect: npt.NDArray[np.float64],
    failed: npt.NDArray[np.bool_],
    isa: str = "",
) -> None:
    """Pairs lo ... lo+m-1 of each matrix, m the columns of `values`; 0 only reduces.

    `form` (count, 2 n): diagonal and n - 1 entries beside it of T = Q^H A Q 2^-power; `defect`:
    max(|A Q x - Q T x| / N, distance of Q from unitary) / (n eps), by the probe `x` (2, n).
    Rows of `skip` are left untouched; failed: the matrix read is not finite. `isa`: one of
    `lanes_sets`, all of the same bits; empty: the widest.
    """

def places(
    form: npt.NDArray[np.float64],
    power: npt.NDArray[np.int32],
    values: npt.NDArray[np.float64],
    lo: int,
    unit: float,
    least: float,
    in_place: npt.NDArray[np.bool_],
) -> None:
    """Whether each row's values can be the eigenvalues lo, lo + 1, ... of T 2^power.

    By Sturm counts at value - delta and value + delta, delta being max(unit N, least).
    """

def pencil_reduce(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    triangle: int,
    skip: npt.NDArray[np.bool_],
    x: npt.NDArray[np.float64] | None,
    eps: float,
    reduced: npt.NDArray[Any],
    factor: npt.NDArray[Any],
    power_a: npt.NDArray[np.int32],
    power_b: npt.NDArray[np.int32],
    defect: npt.NDArray[np.float64],
    largest: npt.NDArray[np.float64],
    definite: npt.NDArray[np.bool_],
) -> None:
    """B 2^-power_b = L L^H and C = L^-1 A L^-H 2^-power_a, computed in double.

    `defect`: max(|L C L^H x - A x| / max|c|, |L L^H x - B x|) / (n eps); `largest`: max|c|;
    without a probe `x` neither is written. Rows of `skip` and of a B
    that is not definite are left untouched.
    """

def pencil_back(
    factor: npt.NDArray[Any],
    power_a: npt.NDArray[np.int32],
    power_b: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any] | None,
) -> None:
    """Values and vectors (count, n, m) of C to those of the pencil, in place."""

def pencil_residual(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    triangle: int,
    values: npt.NDArray[Any],
    vectors: npt.NDArray[Any],
    floor: npt.NDArray[np.float64],
    x: npt.NDArray[np.float64],
    full: bool,
    eps: float,
    quantum: float,
    out: npt.NDArray[np.float32],
) -> None:
    """Residual of each pencil's pairs in units of n eps, by the probe `x` (2, n) or in full.

    `floor`: what max|lambda| of the scaled pencil is known to reach, for a part of the pairs.
    """
