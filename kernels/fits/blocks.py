"""What one block of a stack adds to a fit of parameters that all of it shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from kernels.fits.threads import one_thread

Tensor = torch.Tensor


class Sums(NamedTuple):
    """Sums over data, float64.

    Attributes
    ----------
    chi2 : () sum of squares of the residuals
    gradient : (p,) J^T r, half the gradient
    normal : (p, p) J^T J, or None where only the gradient was asked for
    number : () int64, of real residuals that count
    """

    chi2: Tensor
    gradient: Tensor
    normal: Tensor | None
    number: Tensor


def sum_block(residuals: Callable[[Tensor], Tensor], params: Tensor, second: bool) -> Sums:
    """The sums of one block.

    Parameters
    ----------
    residuals : callable
        residuals(params) -> (...) real or complex, (f - y) / sigma in torch operations; NaN where a
        datum is missing. For `second` they must have forward derivatives.
    params : (p,) float64
    second : bool
        Whether J^T J is wanted: by forward mode, one parameter at a time; else reverse mode.
    """
    with one_thread():
        return _by_forward(residuals, params) if second else _by_reverse(residuals, params)


def _by_forward(residuals: Callable[[Tensor], Tensor], params: Tensor) -> Sums:
    slopes = []
    value = torch.empty(0)
    for tangent in torch.eye(len(params), dtype=params.dtype, device=params.device):
        value, slope = torch.func.jvp(residuals, (params,), (tangent,))[:2]
        slopes.append(_flat(slope))
    r = _flat(value)
    counted = ~r.isnan()
    r, j = torch.where(counted, r, 0), torch.where(counted, torch.stack(slopes), 0)
    return Sums(r @ r, j @ r, j @ j.mT, counted.sum())


def _by_reverse(residuals: Callable[[Tensor], Tensor], params: Tensor) -> Sums:
    with torch.enable_grad():
        leaf = params.detach().clone().requires_grad_()
        r = _flat(residuals(leaf))
        counted = ~r.isnan()
        r = torch.where(counted, r, 0)
        chi2 = r @ r
        (gradient,) = torch.autograd.grad(chi2, leaf)
    return Sums(chi2.detach(), gradient / 2, None, counted.sum())


def _flat(r: Tensor) -> Tensor:
    return torch.view_as_real(r).reshape(-1) if r.is_complex() else r.reshape(-1)


def add_in_order(parts: Iterable[Sums]) -> Sums:
    """The sum of the blocks' sums, one after the other in the order given.

    The bits depend on that order alone, so hand them over in the order of the blocks, whoever
    computed them.
    """
    total: Sums | None = None
    for part in parts:
        if total is None:
            total = part
            continue
        normal = None
        if total.normal is not None and part.normal is not None:
            normal = total.normal + part.normal
        total = Sums(total.chi2 + part.chi2, total.gradient + part.gradient, normal,
                     total.number + part.number)  # fmt: skip
    if total is None:
        raise ValueError("fit_global: got no blocks, expected at least one")
    return total
