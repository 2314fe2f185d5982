"""The driver that solves one matrix in each SIMD lane: scan, solution and proof in one call."""

from __future__ import annotations

from kernels import primitives
from kernels.arguments import Array
from kernels.residual import probe_vector
from kernels.result import THRESHOLD

LARGEST = 256
"""Largest n that the compiled code takes."""
CHUNK_BYTES = 8 * 1024 * 1024
"""Matrices handed over together; the driver itself works in groups that fit the cache."""
SWEEPS = 30
"""Most QR sweeps, times n, as LAPACK's ?steqr allows; about 2 n are needed."""
SETS = tuple(primitives.lanes_sets())
"""Instruction sets compiled in that this CPU has, the widest first. All give the same bits."""


def solve(
    a: Array,
    triangle: int,
    tolerance: float,
    values: Array,
    vectors: Array | None,
    residual: Array,
    status: Array,
    *,
    probe: bool,
    isa: str | None = None,
    sweeps: int = SWEEPS,
    threads: int = 1,
) -> None:
    """Solve (count, n, n) into contiguous `values` and `vectors`, and write residual and status.

    Householder reduction to a tridiagonal matrix and implicit QR, as LAPACK's ?syev and ?heev; for
    values alone from n = 5 on the variant without square roots, as LAPACK's ?sterf. What a lane
    computes depends on its matrix alone, in IEEE + - * / sqrt without fused multiply-add: the bits
    depend neither on the neighbours nor on the width of the registers.

    Parameters
    ----------
    tolerance : float
        Of the defect max|A - A^H| / max|A|, looked at where `triangle` is BOTH.
    probe : bool
        Whether to prove each answer; else residual is NaN and status unchecked.
    isa : str, optional
        One of SETS; None: the widest.
    sweeps : int
        Where this many times n do not suffice, the status is failed.
    threads : int
        Threads that share the matrices, as far as there is work for them.
    """
    n = a.shape[-1]
    x = probe_vector(n, a.dtype.kind == "c") if probe else None
    isa = isa or SETS[0]
    to = residual, status, isa, threads
    primitives.lanes(a, triangle, tolerance, values, vectors, x, THRESHOLD, sweeps, *to)
