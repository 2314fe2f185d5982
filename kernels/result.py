"""What a solver hands back: values, vectors, how wrong they can be, and what became of each."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

THRESHOLD = 50.0
"""Largest residual, in units of n eps, that passes (honest LAPACK stays below about 7)."""


class Status(enum.IntEnum):
    """What became of one matrix; the flag values are part of the stored format."""

    ok = 0
    repaired = 1
    nonfinite = 2
    not_hermitian = 3
    missing = 4
    failed = 5
    masked = 6
    not_run = 7
    not_positive_definite = 8
    unchecked = 9


class Eigen(NamedTuple):
    """Eigendecompositions of a stack, of the kind (numpy or torch) of the input.

    Attributes
    ----------
    values : (..., m) real, ascending, in the unit of the input
    vectors : (..., n, m) or None; column k belongs to value k
    residual : (...) float32, in units of n eps; NaN where there is none
    status : (...) uint8, a `Status` each
    """

    values: Any
    vectors: Any
    residual: Any
    status: Any
