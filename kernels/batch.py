"""A stack of plain data: options resolved, pieces shared among threads, the answer given back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from kernels import generalized, lanes, piece, primitives
from kernels.answer import Answer, Choices, Options
from kernels.arguments import (
    CHUNK_BYTES,
    Stack,
    as_matrices,
    broadcast_pair,
    check_choice,
    check_subset,
    check_threads,
)
from kernels.drivers import check_driver
from kernels.result import Eigen

_TRIANGLES = {
    "lower": primitives.LOWER,
    "upper": primitives.UPPER,
    "strict": primitives.BOTH,
    "average": primitives.BOTH,
}
_HERMITIAN, _CHECKS = tuple(_TRIANGLES), ("probe", "full", "off")
_find_driver = functools.lru_cache(maxsize=1024)(check_driver)  # the rule never changes


def solve(
    a: Any,
    choices: Choices,
    *,
    b: Any = None,
    vectors: bool = True,
    subset: Sequence[int | None] | None = None,
) -> Eigen:
    """`kernels.eigh` of plain data; nothing that follows a tensor is looked at."""
    stack, metric = as_matrices(a, "kernels.eigh"), None
    if b is not None:
        stack, metric = broadcast_pair(stack, as_matrices(b, "kernels.eigh: b"))
    options = _resolve(stack, choices, vectors, subset)
    answer = Answer.empty(stack, options.pairs.stop - options.pairs.start, vectors)
    if metric is None and _is_one_piece(stack, options):
        piece.solve(stack.take(0, stack.count), options, answer)
    else:
        _solve_pieces(stack, metric, options, answer)
    return _give(stack, answer)


def _solve_pieces(stack: Stack, metric: Stack | None, options: Options, answer: Answer) -> None:
    workers, options = options.threads, options._replace(threads=1)
    small = options.driver == "lapack" or metric is not None
    pieces = list(stack.pieces(workers, CHUNK_BYTES if small else lanes.CHUNK_BYTES))

    def work(bounds: tuple[int, int]) -> None:
        matrices, part = stack.take(*bounds), answer[slice(*bounds)]
        if metric is None:
            piece.solve(matrices, options, part)
        else:
            b = metric.take(*bounds).astype(stack.dtype, copy=False)
            generalized.solve_piece(matrices, b, options, part, piece.solve)

    _share(work, pieces, workers)


def _resolve(stack: Stack, choices: Choices, vectors: bool, subset: Any) -> Options:
    """Raise ValueError for choices that make no sense; else say what they mean for this stack."""
    hermitian, tolerance, driver, check, repair, threads = choices
    n = stack.item[0]
    driver = _find_driver(driver, n, stack.dtype, stack.device or "cpu", vectors)
    check_choice("hermitian", hermitian, _HERMITIAN)
    check_choice("check", check, _CHECKS)
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"hermitian_tol: got {tolerance!r}, expected a number >= 0, or None")
    if hermitian != "strict":
        tolerance = np.inf
    elif tolerance is None:
        tolerance = 100 * n * float(np.finfo(stack.dtype).eps)
    how = _TRIANGLES[hermitian], float(tolerance), check, repair
    return Options(*how, check_subset(subset, n), driver, check_threads(threads))


def _is_one_piece(stack: Stack, options: Options) -> bool:
    """Whether the driver takes the stack as it lies and shares it among threads of its own.

    Not where more than the driver's one pass is to be done for each matrix.
    """
    whole = options.driver == "lanes" and options.pairs == slice(0, stack.item[0])
    return whole and options.check != "full" and stack.in_place


def _share(work: Callable[[tuple[int, int]], None], pieces: list[Any], workers: int) -> None:
    if workers == 1 or len(pieces) < 2:
        for bounds in pieces:
            work(bounds)
        return
    pool = ThreadPoolExecutor(min(workers, len(pieces)), thread_name_prefix="kernels")
    try:
        for _ in pool.map(work, pieces):
            pass
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _give(stack: Stack, answer: Answer) -> Eigen:
    """The answer in the shape of the batch, and of the kind of the stack."""
    batch, vectors = stack.batch, answer.vectors
    return Eigen(
        stack.give(answer.values.reshape(*batch, answer.values.shape[1])),
        None if vectors is None else stack.give(vectors.reshape(*batch, *vectors.shape[1:])),
        stack.give(answer.residual.reshape(batch)),
        stack.give(answer.status.reshape(batch)),
    )
