"""Work shared among threads of Python, each with one thread of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from kernels import lapack


@contextmanager
def one_thread() -> Iterator[None]:
    """Give torch one thread in the calling thread, and put back what was there.

    torch.set_num_threads would change threads that are yet to start, too; OpenMP's own setting is
    that of the calling thread alone.
    """
    openmp, before = lapack._function("omp_set_num_threads"), torch.get_num_threads()
    if openmp is not None:
        openmp(1)
    try:
        with lapack.one_thread(), torch.no_grad():
            yield
    finally:
        if openmp is not None:
            openmp(before)


def share(work: Callable[[], None], workers: int) -> None:
    """Do `work` in so many threads at once, and wait for all."""

    def alone() -> None:
        with one_thread():
            work()

    if workers <= 1:
        alone()
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="kernels") as pool:
        for future in [pool.submit(alone) for _ in range(workers)]:
            future.result()
