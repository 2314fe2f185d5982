"""A x = lambda B x for tensors that a gradient, a transform or a graph follows.

Made of torch's Cholesky factorisation and triangular solves around `kernels.eigh` of the reduced
matrix, so that every derivative and transform comes from theirs. The proof is that of the reduced
matrix, and the last bits may depend on the batch.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels import operators
from kernels.answer import Choices
from kernels.result import Eigen, Status

Tensor = torch.Tensor


def is_followed(a: Any, b: Any) -> bool:
    """Whether both are tensors and autograd, a transform or a compiler follows one of them."""
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    return tensors and (operators.is_followed(a) or operators.is_followed(b))


def eigh(
    a: Tensor,
    b: Tensor,
    vectors: bool,
    subset: Any,
    degenerate: Any,
    choices: Choices,
) -> Eigen:
    """`kernels.eigh` with `b`."""
    b = b.to(torch.promote_types(a.dtype, b.dtype))
    if b.dtype != a.dtype or a.shape[-2:] != b.shape[-2:]:
        raise ValueError(
            f"kernels.eigh: got b of {tuple(b.shape)} and {b.dtype} for a of {tuple(a.shape)} and "
            f"{a.dtype}, expected (..., {a.shape[-1]}, {a.shape[-1]}) of a dtype that a holds"
        )
    skew = torch.zeros((), dtype=torch.bool, device=a.device)
    if choices.hermitian == "strict":
        tolerance = choices.hermitian_tol
        if tolerance is None:
            tolerance = 100 * a.shape[-1] * torch.finfo(a.dtype).eps
        skew = (_defect(a) > tolerance) | (_defect(b) > tolerance)
    a, b = _mend(a, choices.hermitian), _mend(b, choices.hermitian)
    lower, info = torch.linalg.cholesky_ex(b)
    definite = info == 0
    half = torch.linalg.solve_triangular(lower, a, upper=False)
    c = torch.linalg.solve_triangular(lower, half.mH, upper=False).mH
    reduced = choices._replace(hermitian="average", hermitian_tol=None)
    found = operators.eigh(c, vectors, subset, degenerate, reduced)
    values, v, residual, status = found
    finite = (torch.isfinite(a).all(-1) & torch.isfinite(b).all(-1)).all(-1)
    status = torch.where(definite, status, int(Status.not_positive_definite))
    status = torch.where(skew, int(Status.not_hermitian), status)
    status = torch.where(finite, status, int(Status.nonfinite)).to(torch.uint8)
    good = definite & finite & ~skew
    values = torch.where(good[..., None], values, torch.nan)
    if v is not None:
        upper = lower.mH.broadcast_to(*v.shape[:-1], v.shape[-2])
        v = torch.linalg.solve_triangular(upper, v, upper=True)
        v = torch.where(good[..., None, None], v, torch.nan)
    return Eigen(values, v, residual, status)


def _mend(a: Tensor, hermitian: str) -> Tensor:
    """The Hermitian matrix that is solved."""
    if hermitian in ("strict", "average"):
        return (a + a.mH) / 2
    low = a.tril(-1) if hermitian == "lower" else a.triu(1).mH
    diagonal = torch.diagonal(a, dim1=-2, dim2=-1).real.to(a.dtype)
    return low + low.mH + torch.diag_embed(diagonal)


def _defect(a: Tensor) -> Tensor:
    size = a.abs().flatten(-2).amax(-1)
    return (a - a.mH).abs().flatten(-2).amax(-1) / torch.where(size > 0, size, 1)
