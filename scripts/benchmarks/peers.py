"""What else solves a stack of Hermitian matrices, each as its users would call it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg
import torch

from benchmarks.timing import THREADS, Work

SCIPY_SHARE = 64
"""scipy solves one matrix a call: a part of the stack is enough to know."""
CHUNKS = 8


def import_jax() -> Any:
    """jax with 64-bit numbers, or None."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    return jax


def find_peers(a: Any, vectors: bool) -> dict[str, tuple[Work, float]]:
    """Name -> (a call, what to multiply its time by) for one stack."""
    peers: dict[str, tuple[Work, float]] = {
        "numpy": (call_numpy(a, vectors), 1.0),
        "torch": (call_torch(a, vectors), 1.0),
        "torch, pool": (call_torch_pool(a, vectors), 1.0),
    }
    part = a[: max(1, len(a) // SCIPY_SHARE)]
    peers["scipy"] = (call_scipy(part, vectors), len(a) / len(part))
    if jax := import_jax():
        peers["jax"] = (call_jax(jax, a, vectors), 1.0)
    return peers


def call_numpy(a: Any, vectors: bool) -> Work:
    solve: Callable[[Any], object] = np.linalg.eigh if vectors else np.linalg.eigvalsh
    return lambda: solve(a)


def call_scipy(a: Any, vectors: bool) -> Work:
    def work() -> None:
        for matrix in a:
            scipy.linalg.eigh(matrix, eigvals_only=not vectors, check_finite=False)

    return work


def call_torch(a: Any, vectors: bool) -> Work:
    tensor = torch.from_numpy(a)
    solve = torch.linalg.eigh if vectors else torch.linalg.eigvalsh

    def work() -> None:
        torch.set_num_threads(THREADS)
        solve(tensor)

    return work


def call_torch_pool(a: Any, vectors: bool) -> Work:
    """Chunks shared by as many Python threads, one thread of torch each."""
    tensor = torch.from_numpy(a)
    solve = torch.linalg.eigh if vectors else torch.linalg.eigvalsh
    step = -(-len(a) // (THREADS * CHUNKS))
    pieces = list(tensor.split(step))

    def work() -> None:
        torch.set_num_threads(1)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(solve, pieces))
        torch.set_num_threads(THREADS)

    return work


def call_jax(jax: Any, a: Any, vectors: bool) -> Work:
    """vmapped and compiled; the stack is on jax's side already."""

    def solve(x: Any) -> Any:
        if vectors:
            return jax.numpy.linalg.eigh(x, symmetrize_input=False)
        return jax.numpy.linalg.eigvalsh(x, symmetrize_input=False)

    compiled, there = jax.jit(jax.vmap(solve)), list[Any]()

    def work() -> None:
        if not there:  # not before: jax's threads must be those of the process that calls
            there.append(jax.numpy.asarray(a))
        jax.block_until_ready(compiled(there[0]))

    return work
