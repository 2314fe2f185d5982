"""What the solvers pass on: what a caller chose, what that means for a stack, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernels.arguments import Array, Check, Hermitian, Stack


class Choices(NamedTuple):
    """How `kernels.eigh` was asked to solve; not yet checked."""

    hermitian: Hermitian = "lower"
    hermitian_tol: float | None = None
    driver: str = "auto"
    check: Check = "probe"
    repair: bool = True
    threads: int | None = None


class Options(NamedTuple):
    """How a stack is solved, resolved and checked."""

    triangle: int
    tolerance: float  # infinite where the defect is not looked at
    check: str
    repair: bool
    pairs: slice
    driver: str
    threads: int  # that share a piece, where the driver has its own


@dataclass(frozen=True)
class Answer:
    """Arrays of a stack, flat over the batch; a piece of one is a view."""

    values: Array
    vectors: Array | None
    residual: Array
    status: Array

    @classmethod
    def empty(cls, stack: Stack, pairs: int, vectors: bool) -> Answer:
        count, n = stack.count, stack.item[0]
        return cls(
            np.empty((count, pairs), stack.dtype.char.lower()),
            np.empty((count, n, pairs), stack.dtype) if vectors else None,
            np.empty(count, np.float32),
            np.empty(count, np.uint8),
        )

    def __getitem__(self, rows: Any) -> Answer:
        vectors = None if self.vectors is None else self.vectors[rows]
        return Answer(self.values[rows], vectors, self.residual[rows], self.status[rows])

    def put(self, rows: Any, other: Answer, pairs: slice = slice(None)) -> None:
        self.values[rows] = other.values[:, pairs]
        if self.vectors is not None and other.vectors is not None:
            self.vectors[rows] = other.vectors[:, :, pairs]
        self.residual[rows], self.status[rows] = other.residual, other.status

    def blank(self, rows: Array) -> None:
        """NaN in values and vectors; the residual found stays."""
        self.values[rows] = np.nan
        if self.vectors is not None:
            self.vectors[rows] = np.nan
