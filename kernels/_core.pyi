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
