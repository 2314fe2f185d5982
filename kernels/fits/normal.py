"""Normal equations of a tile of fits, and their solution: rows in the last, contiguous dimension.

Every sum runs over the points, or over parameters, in an order that depends on their number alone;
nothing is summed over rows. So a row has the same bits in every lane and beside all neighbours, as
long as a tile is a whole number of `LANES` wide: torch's kernels treat the remainder of a width
differently.
"""

from __future__ import annotations

import functools
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


class Sums:
    """Sums over points for tiles of one shape; the arrays are used again and again."""

    def __init__(self, size: int, points: int, width: int, device: torch.device) -> None:
        """For `size` - 1 free parameters; points are those of real and imaginary parts."""
        make = functools.partial(torch.zeros, dtype=torch.float64, device=device)
        self.matrix = make(size, size, width)
        self._cells = [[self.matrix[i, j] for j in range(size)] for i in range(size)]
        self._factors = make(size, width) + 1
        self._rows = list(self._factors)
        self._across, self._down = self._factors[None], self._factors[:, None]
        self._product = make(points, width).mT
        self._points = points

    def add_up(
        self, residual: Tensor, slopes: Sequence[Slope], weights: Weights
    ) -> tuple[Tensor, Tensor]:
        """The upper triangle of [J r]^T [J r], overwritten by the next call, and what is minimised.

        Parameters
        ----------
        residual : (rows, points), f - y
        slopes : as `kernels.fits.jacobian` gives them
        """
        fulls = self._split(slopes, residual)
        if residual.is_complex():
            residual = _as_real(residual)
            weights = weights._replace(each=_twice(weights.each), counted=_twice(weights.counted))
        if weights.each is not None or weights.counted is not None:
            columns: Any = [weights.apply(f) for f in (residual, *fulls)]
            residual, *fulls = columns
        chi2 = None
        if weights.loss != "linear":
            rho, of_residual, of_slope = losses.weigh(residual, weights.loss, weights.scale)
            chi2 = rho.sum(-1)
            residual = residual * of_residual
            fulls = [of_slope if f is None else f * of_slope for f in fulls]
        self._fill([*fulls, residual])
        self.matrix.mul_(self._down).mul_(self._across)
        return self.matrix, self._cells[-1][-1].clone() if chi2 is None else chi2

    def _split(self, slopes: Sequence[Slope], residual: Tensor) -> list[Any]:
        """The parts that differ from point to point; the factors of the rest are set."""
        fulls: list[Any] = []
        for slope, factor in zip(slopes, self._rows, strict=False):
            number, flat, full = (0.0, None, None) if slope is None else slope
            if residual.is_complex():
                fulls.append(_multiply_out(number, flat, full, residual))
                continue
            if flat is None:
                factor.fill_(number)
            else:
                torch.mul(flat.squeeze(-1) if flat.ndim else flat, number, out=factor)
            fulls.append(full if full is None else full.expand(residual.shape))
        return fulls

    def _fill(self, columns: list[Any]) -> None:
        """Products of all pairs of columns, summed over points; None is a column of ones."""
        known = dict[tuple[int, int], Tensor]()
        product = self._product
        for i, a in enumerate(columns):
            for j in range(i, len(columns)):
                b, cell = columns[j], self._cells[i][j]
                key = (id(a), id(b)) if id(a) < id(b) else (id(b), id(a))
                if key in known:
                    cell.copy_(known[key])
                elif a is None and b is None:
                    known[key] = cell.fill_(self._points)
                elif a is None or b is None:
                    known[key] = torch.sum(b if a is None else a, -1, out=cell)
                else:
                    known[key] = torch.sum(torch.mul(a, b, out=product), -1, out=cell)


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


class Elimination:
    """Gauss's elimination of (f, f + 1, rows) systems from their upper triangles.

    Without pivoting: for positive definite matrices that is as stable as Cholesky's. The arrays,
    and views of them, are kept, because each view costs as much as the work on it.
    """

    def __init__(self, f: int, width: int, device: torch.device) -> None:
        self.system = torch.zeros(f, f + 1, width, dtype=torch.float64, device=device)
        a, s = self.system, torch.zeros_like(self.system)
        self.diagonal = a[:, :f].diagonal().mT
        """(f, rows); after `eliminate` the pivots."""
        self.square = a[:, :f]
        spare = torch.empty_like(a)
        self._steps = [
            (a[k, k], a[k, k + 1 :], s[k, k + 1 :], a[k, k + 1 : f, None], s[None, k, k + 1 :],
             a[k + 1 :, k + 1 :], spare[k + 1 :, k + 1 :])
            for k in range(f)
        ]  # fmt: skip
        self.x = torch.zeros(f, width, dtype=torch.float64, device=device)
        self._back = [
            (s[k, k + 1 : f], self.x[k + 1 :], spare[k, k + 1 : f], s[k, f], self.x[k])
            for k in range(f - 2, -1, -1)
        ]
        self._last = s[f - 1, f], self.x[f - 1]
        self.reduced = s[:, f]
        """(f, rows): after `eliminate` the right side, forward substituted, over the pivots."""

    def eliminate(self) -> Tensor:
        """b^T A^-1 b, (rows,); the system is overwritten."""
        for pivot, row, scaled, column, across, rest, spare in self._steps:
            torch.div(row, pivot, out=scaled)
            if len(rest):
                torch.mul(column, across, out=spare)
                rest.sub_(spare)
        return (self.reduced * self.reduced).mul_(self.diagonal).sum(0)

    def substitute(self) -> Tensor:
        """A^-1 b, (f, rows), overwritten by the next call."""
        scaled, x = self._last
        x.copy_(scaled)
        for row, known, spare, right, x in self._back:
            torch.sub(right, torch.mul(row, known, out=spare).sum(0), out=x)
        return self.x


def symmetric(a: Tensor) -> Tensor:
    """(p, p, rows) from its upper triangle."""
    upper = torch.triu(torch.ones(a.shape[:2], dtype=torch.bool, device=a.device))[..., None]
    return torch.where(upper, a, a.transpose(0, 1))


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
