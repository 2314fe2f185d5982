"""`eigh` and `eigvalsh`: what is followed goes to the operators, plain data to the solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels import batch
from kernels.answer import Choices
from kernels.arguments import Check, Degenerate, Hermitian, check_width
from kernels.result import Eigen


def eigh(
    a: Any,
    *,
    b: Any = None,
    vectors: bool = True,
    subset: Sequence[int | None] | None = None,
    hermitian: Hermitian = "lower",
    hermitian_tol: float | None = None,
    driver: str = "auto",
    check: Check = "probe",
    repair: bool = True,
    threads: int | None = None,
    degenerate: Degenerate = "error",
) -> Eigen:
    """Eigenvalues and eigenvectors of every matrix of a stack, each one proved.

    Never raises for what a matrix contains, never lets one matrix touch another, and leaves
    global random and thread state as found. On the CPU the answer to a matrix depends on that
    matrix alone, bit for bit: not on the batch, the position in it, or `threads`.

    Parameters
    ----------
    a : (..., n, n) numpy.ndarray or torch.Tensor
        float32, float64, complex64 or complex128; any strides; n >= 1; empty batches are fine.
        Differentiable in both modes, and an operator under vmap, compile and export.
    b : (..., n, n), optional
        Hermitian and positive definite, broadcast against `a` and of its kind: A x = lambda B x is
        solved, with X^H B X = 1. A B that is not positive definite to working precision is the
        status not_positive_definite. `hermitian` and `hermitian_tol` hold for both.
    vectors : bool
        Whether vectors are wanted.
    subset : [lo, hi), optional
        Indices into the ascending spectrum, negatives from the top; None is an open end. Few
        vectors of large matrices are found for themselves: see `kernels.subset.is_few`.
    hermitian : "lower", "upper", "strict" or "average"
        Read one triangle, as LAPACK does (an imaginary diagonal is ignored); or look at both:
        "strict" flags max|A - A^H| / max|A| above `hermitian_tol` as not_hermitian, and both then
        solve (A + A^H) / 2.
    hermitian_tol : float, optional
        For "strict"; default 100 n eps of the dtype of `a`.
    driver : str
        "auto" (see `choose_driver`), "lanes" or "lapack".
    check : "probe", "full" or "off"
        How each answer is proved; see `verify`. "off" gives status unchecked, residual NaN.
    repair : bool
        Whether an answer that fails is sought again by another route (double precision for
        single, QL iteration for double).
    threads : int, optional
        Threads that share the batch; each matrix has one. None: `torch.get_num_threads()`.
    degenerate : "error", "broaden" or float
        What becomes of the gradient of a loss that depends on the basis of equal eigenvalues: an
        error, or F = d / (d^2 + w^2) in place of 1 / d for all gaps d, with w in units of max|l|;
        "broaden" means eps^(1/3).

    Returns
    -------
    Eigen
        Of the kind of `a`. Rows that are not ok, repaired or unchecked hold NaN. Vectors are
        C-contiguous, of unit length, with the largest component real and positive as by
        `fix_gauge`.

    Raises
    ------
    ValueError
        For arguments that make no sense, before any work.
    """
    choices = Choices(hermitian, hermitian_tol, driver, check, repair, threads)
    if not isinstance(a, np.ndarray):  # torch takes a second to load: not for arrays of numpy
        import torch

        from kernels import composed, operators

        if b is not None and composed.is_followed(a, b):
            return composed.eigh(a, b, vectors, subset, degenerate, choices)
        if isinstance(a, torch.Tensor) and operators.is_followed(a):
            return operators.eigh(a, vectors, subset, degenerate, choices)
    if degenerate != "error":
        check_width(degenerate, "float64")
    return batch.solve(a, choices, b=b, vectors=vectors, subset=subset)


def eigvalsh(a: Any, **options: Any) -> Eigen:
    """Eigenvalues of every matrix of a stack: `eigh(a, vectors=False, **options)`."""
    return eigh(a, vectors=False, **options)
