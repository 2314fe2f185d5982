"""LAPACK: where its routines are, and one thread for each matrix."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernels import primitives
from kernels.arguments import Array

_DIVIDE = {"f": "ssyevd_", "d": "dsyevd_", "F": "cheevd_", "D": "zheevd_"}
_ITERATE = {"d": "dsyev_", "D": "zheev_"}


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The library that holds torch's LAPACK; symbols of what it links are found through it.

    Loaded without torch itself, which takes ten times as long and twice the memory.
    """
    found = importlib.util.find_spec("torch")
    folder = Path((found and found.origin) or "").parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        if (folder / name).exists():
            return ctypes.CDLL(str(folder / name))
    return None


def _function(name: str) -> Any:
    return getattr(_library(), name, None)


@functools.cache
def find_routine(name: str) -> int:
    """Address of a LAPACK routine: torch's own LAPACK (MKL on x86-64), else scipy's.

    torch.linalg.eigh is not called itself, because it packs a batch and MKL's last bits depend
    on a matrix's alignment: the answer would depend on the position in the batch.
    """
    function = _function(name)
    if function is not None:
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
    from scipy.linalg import cython_lapack

    capsules: Any = cython_lapack.__pyx_capi__
    capsule = capsules[name.removesuffix("_")]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        [ctypes.py_object],
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


@contextmanager
def one_thread() -> Iterator[None]:
    """Give LAPACK one thread in the calling thread, and put back what was there.

    torch.set_num_threads would change every thread of the process. MKL's setting for the calling
    thread alone does not; a LAPACK over OpenMP obeys OpenMP's, which is the thread's own too.
    """
    change = _function("MKL_Set_Num_Threads_Local")
    if change:
        before = change(1)
    elif change := _function("omp_set_num_threads"):
        before = _function("omp_get_max_threads")()
        change(1)
    try:
        yield
    finally:
        if change:
            change(before)


def solve(
    a: Array,
    triangle: int,
    exponent: Array,
    skip: Array,
    values: Array,
    vectors: Array | None,
    *,
    repair: bool = False,
) -> Array:
    """Solve (count, n, n) into `values` and `vectors`; NaN where skipped or failed.

    The largest component of each vector is made real and positive (see `kernels.fix_gauge`).

    Divide and conquer (?syevd, ?heevd) in the precision of `a`. With `repair` another route:
    double precision for single, QL iteration (?syev, ?heev) for double.

    Returns
    -------
    failed : (count,) bool
        Where LAPACK reported that it did not converge.
    """
    single = a.dtype.char in "fF"
    wide = {"f": "d", "F": "D"}.get(a.dtype.char, a.dtype.char)
    divide = single or not repair
    routine = (_DIVIDE if divide else _ITERATE)[wide if repair else a.dtype.char]
    failed = np.empty(len(a), bool)
    with one_thread():
        primitives.lapack(
            a,
            triangle,
            exponent,
            skip,
            find_routine(routine),
            divide,
            repair and single,
            values,
            vectors,
            failed,
        )
    if vectors is not None:
        primitives.gauge(vectors)
    return failed
