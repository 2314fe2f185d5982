"""Normal equations of a tile of fits, and their solution: rows in the last, contiguous dimension.

Every sum runs over the points, or over parameters, in an order that depends on their number alone;
nothing is summed over rows. So a row has the same bits in every lane and beside all neighbours, as
long as a tile is a whole number of `LANES` wide: torch's kernels treat the remainder of a width
differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from kernels.fits import losses
from kernels.fits.jacobian import Slope

Tensor = torch.Tensor
LANES = 64
"""Wider than what any of torch's CPU kernels takes in one step: four vectors of 16 float32."""


class Weights(NamedTuple):
    """How residuals count."""

    each: Tensor | None  # (rows, points) 1 / sigma; None: all 1
    counted: Tensor | None  # (rows, points) bool; None: all
    loss: str
    scale: float

    def apply(self, column: Tensor | None) -> Tensor | None:
        """A column weighted, 0 where it does not count, whatever it was; None is ones."""
        each, counted = self.each, self.counted
        if each is not None:
            column = each if column is None else column * each
        if counted is None:
            return column
        return counted.to(torch.float64) if column is None else torch.where(counted, column, 0)


def sum_products(
    residual: Tensor, slopes: Sequence[Slope], weights: Weights
) -> tuple[Tensor, Tensor]:
    """[J r]^H [J r], (p + 1, p + 1, rows), and what is minimised, (rows,).

    Parameters
    ----------
    residual : (rows, points), f - y
    slopes : as `kernels.fits.jacobian` gives them
    """
    count, size = residual.shape
    fulls, factors = _split(slopes, residual)
    if residual.is_complex():
        residual, size = _as_real(residual), 2 * size
        weights = weights._replace(each=_twice(weights.each), counted=_twice(weights.counted))
    weighted = weights.apply(residual)
    assert weighted is not None
    fulls = [weights.apply(f) for f in fulls]
    chi2 = None
    if weights.loss != "linear":
        rho, of_residual, of_slope = losses.weigh(weighted, weights.loss, weights.scale)
        chi2 = rho.sum(-1)
        weighted = weighted * of_residual
        fulls = [of_slope if f is None else f * of_slope for f in fulls]
    matrix = _fill([*fulls, weighted], count, size)
    matrix *= factors[:, None]
    matrix *= factors[None, :]
    return matrix, matrix[-1, -1].clone() if chi2 is None else chi2


def sum_gradient(
    residual: Tensor, slopes: Sequence[Slope], weights: Weights
) -> tuple[Tensor, Tensor]:
    """Half the gradient (p, rows) of what is minimised, and that itself, (rows,)."""
    matrix, chi2 = sum_products(residual, slopes, weights)
    return matrix[:-1, -1].contiguous(), chi2


def _split(slopes: Sequence[Slope], residual: Tensor) -> tuple[list[Any], Tensor]:
    """The parts that differ from point to point, and the factors (p + 1, rows) of the rest."""
    factors = torch.ones(
        len(slopes) + 1, len(residual), dtype=residual.dtype.to_real(), device=residual.device
    )
    fulls: list[Any] = []
    for k, slope in enumerate(slopes):
        if slope is None:
            factors[k] = 0
            fulls.append(None)
            continue
        number, flat, full = slope
        if residual.is_complex():
            fulls.append(_multiply_out(number, flat, full, residual))
            continue
        if flat is not None:
            factors[k] = flat.squeeze(-1) if flat.ndim else flat
        if number != 1:
            factors[k] *= number
        fulls.append(full if full is None else full.expand(residual.shape))
    return fulls, factors


def _multiply_out(number: float, flat: Any, full: Any, residual: Tensor) -> Tensor:
    out = torch.full_like(residual, number)
    for part in (flat, full):
        out = out if part is None else out * part
    return _as_real(out)


def _as_real(z: Tensor) -> Tensor:
    """(rows, 2 points): real parts, then imaginary parts."""
    return torch.cat([z.real.mT, z.imag.mT]).mT


def _twice(x: Tensor | None) -> Tensor | None:
    return None if x is None else torch.cat([x.mT, x.mT]).mT


def _fill(columns: list[Any], count: int, size: int) -> Tensor:
    """Products of all pairs of columns, summed over points; None is a column of ones."""
    last, p = columns[-1], len(columns)
    matrix = torch.empty(p, p, count, dtype=last.dtype, device=last.device)
    product, known = torch.empty_like(last), dict[tuple[int, ...], Tensor]()
    for i in range(p):
        for j in range(i, p):
            a, b = columns[i], columns[j]
            if a is None and b is None:
                matrix[i, j] = size
                continue
            key = tuple(sorted((id(a), id(b))))
            if key not in known:
                if a is None or b is None:
                    known[key] = (b if a is None else a).sum(-1)
                else:
                    known[key] = torch.mul(a, b, out=product).sum(-1)
            matrix[i, j] = known[key]
            if i != j:
                matrix[j, i] = known[key]
    return matrix


def eliminate(a: Tensor) -> Tensor:
    """Gauss's elimination in place, of (p, p + 1, rows); the pivots, (p, rows).

    Without pivoting: for positive definite matrices that is as stable as Cholesky's.
    """
    p = a.shape[0]
    pivots = torch.empty(p, a.shape[-1], dtype=a.dtype, device=a.device)
    for k in range(p):
        pivots[k] = a[k, k]
        a[k, k + 1 :] /= a[k, k].clone()
        if k + 1 < p:
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k, k + 1 :]
    return pivots


def substitute(a: Tensor) -> Tensor:
    """The solution (p, rows) that `eliminate` left the triangle of."""
    p = a.shape[0]
    x = a[:, p].clone()
    for k in range(p - 2, -1, -1):
        for j in range(p - 1, k, -1):
            x[k] -= a[k, j] * x[j]
    return x


def invert(a: Tensor) -> Tensor:
    """Inverse of symmetric positive definite (p, p, rows), by sweeping each pivot.

    J. H. Goodnight, A tutorial on the SWEEP operator, Am. Stat. 33 (1979) 149.
    """
    a = a.clone()
    for k in range(a.shape[0]):
        row, column, pivot = a[k] / a[k, k], a[:, k].clone(), a[k, k].clone()
        a -= column[:, None] * row[None]
        a[k], a[:, k] = row, -column / pivot
        a[k, k] = 1 / pivot
    return (a + a.transpose(0, 1)) / 2
