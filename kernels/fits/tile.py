"""The curves that are worked on together: points by rows, the rows contiguous.

A tile is a whole number of `LANES` wide, whatever the batch: a lane without a row computes, and
nobody looks. All that is done to a row is done in its lane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from kernels.fits.jacobian import Slopes
from kernels.fits.normal import LANES, Sums, Weights
from kernels.fits.problem import Problem
from kernels.fits.result import FitStatus
from kernels.fits.script import Scripts

Tensor = torch.Tensor
LARGEST = 110_000
"""Numbers in one array of a tile on the CPU: what is done once for all rows of a tile is then a
small part of the whole, and its arrays are still near."""
WIDEST = 33 * LANES
"""Rows of a tile on the CPU. Not a power of two: the rows of a column would share cache lines."""
ON_DEVICE = 2**24
"""Numbers in one array of a tile elsewhere."""


def width_for(problem: Problem) -> int:
    """Rows of a tile; of the number of points and the device alone."""
    if problem.device.type != "cpu":
        return max(LANES, ON_DEVICE // problem.points // LANES * LANES)
    width = min(WIDEST, LARGEST // problem.points // LANES * LANES)
    return max(LANES, width)


def padded(index: Tensor) -> Tensor:
    """An index with its last entry repeated up to a whole number of lanes."""
    return torch.cat([index, index[-1:].expand(-len(index) % LANES)])


def columns(width: int, *shape: int, like: Problem, dtype: torch.dtype | None = None) -> Tensor:
    """Zeros of (..., width)."""
    return torch.zeros(*shape, width, dtype=dtype or torch.float64, device=like.device)


class Loaded(NamedTuple):
    """What is known of rows before their fit: each (k,), but for start (free, k)."""

    start: Tensor
    status: Tensor  # `converged` for what can be fitted


class Tile:
    """Data of the rows in each lane, and the model on them."""

    def __init__(self, problem: Problem, width: int, slopes: Slopes | None = None) -> None:
        self.problem, self.width, self.slopes = problem, width, slopes
        p, n = problem, problem.points
        self.x = [columns(width, n, like=p) for _ in p.x]
        for rows, x in zip(p.x, self.x, strict=True):
            if rows.same:
                x[:] = rows.take(torch.zeros(1, dtype=torch.int64, device=p.device), x.dtype).mT
        self.y = columns(width, n, like=p, dtype=p.dtype)
        self.params = columns(width, p.p, like=p) + 1
        self.counted: Tensor | None = None
        self.each = None if p.sigma is None else columns(width, n, like=p) + 1
        self.number, self.size, self.spread = (columns(width, like=p) for _ in range(3))
        self.sums: Sums | None = None
        self.scripts: Scripts | None = None

    def narrow(self, lanes: Tensor, slopes: Slopes) -> Tile:
        """A tile of some of the lanes."""
        new = object.__new__(Tile)
        new.problem, new.width, new.slopes = self.problem, len(lanes), slopes
        new.x = [x[:, lanes].contiguous() for x in self.x]
        new.y, new.params = self.y[:, lanes].contiguous(), self.params[:, lanes].contiguous()
        new.counted = None if self.counted is None else self.counted[:, lanes].contiguous()
        new.each = None if self.each is None else self.each[:, lanes].contiguous()
        new.number, new.size, new.spread = (a[lanes] for a in (self.number, self.size, self.spread))
        new.sums, new.scripts = None, None
        return new

    def variables(self) -> Any:
        """x as the model takes it."""
        views = tuple(x.mT for x in self.x)
        return views if self.problem.several else views[0]

    def load(self, lanes: Tensor, rows: Tensor, start: Tensor | None = None) -> Loaded:
        """Put rows into lanes.

        Parameters
        ----------
        start : (p, k), in place of the problem's own
        """
        p, k = self.problem, len(rows)
        at = padded(rows)
        y = p.y.take(at, p.dtype).mT.contiguous()
        x = [self.x[j][:, : len(at)] if r.same else r.take(at, torch.float64).mT.contiguous()
             for j, r in enumerate(p.x)]  # fmt: skip
        counted, w, bad = self._sift(at, x, y)
        if counted is not None:
            y = torch.where(counted, y, 0)
            if self.counted is None:
                self.counted = columns(self.width, p.points, like=p, dtype=torch.bool).logical_not()
        self._measure(lanes, y, w, counted)
        params = self._start(at, x, y, counted, start)
        self.y.index_copy_(1, lanes, y[:, :k])
        self.params.index_copy_(1, lanes, params[:, :k])
        if self.each is not None and w is not None:
            self.each.index_copy_(1, lanes, w[:, :k])
        if self.counted is not None:
            self.counted[:, lanes] = True if counted is None else counted[:, :k]
        for r, buffer, values in zip(p.x, self.x, x, strict=True):
            if not r.same:
                buffer.index_copy_(1, lanes, values[:, :k])
        free = params[list(p.free), :k]
        status = torch.where(bad[:k] | ~params[:, :k].isfinite().all(0), FitStatus.nonfinite, 0)
        few = self.number[lanes] < len(p.free)
        return Loaded(free, torch.where(few, FitStatus.no_data, status))

    def _sift(
        self, rows: Tensor, x: list[Tensor], y: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Which points count (None: all), their weights, and which rows can't be fitted."""
        p, nothing = self.problem, torch.zeros(len(rows), dtype=torch.bool, device=y.device)
        sigma = None if p.sigma is None else p.sigma.take(rows, torch.float64).mT.contiguous()
        if sigma is None and p.mask is None and all(bool(a.sum().isfinite()) for a in (y, *x)):
            return None, None, nothing
        known = [y, *x] if sigma is None else [y, *x, sigma]
        counted = torch.stack([~a.isnan() for a in known]).all(0)
        if p.mask is not None:
            counted &= p.mask.take(rows, torch.bool).mT
        if sigma is not None:
            counted &= sigma != torch.inf
        odd = torch.stack([~a.isfinite() for a in known]).any(0)
        if sigma is not None:
            odd |= ~(sigma > 0)
        bad = (counted & odd).any(0)
        w = None if sigma is None else torch.where(counted, 1 / sigma, 0)
        return (None if bool(counted.all()) else counted), w, bad

    def _measure(self, lanes: Tensor, y: Tensor, w: Tensor | None, counted: Tensor | None) -> None:
        """Number of real data, sum of their squares, and that about their mean.

        Weights of one are left out, which changes no bit.
        """
        k, parts = len(lanes), 2 if y.is_complex() else 1
        number = torch.full_like(y[0].real, len(y))
        if counted is not None:
            number = counted.sum(0).to(torch.float64)
        square = w if w is None else w * w
        if square is None and counted is not None:
            square = counted.to(torch.float64)
        total = number if w is None or square is None else square.sum(0)
        mean = (y if square is None else square * y).sum(0) / total
        apart, whole = (y - mean).abs(), y.abs()
        both = [a * a if square is None else square * (a * a) for a in (whole, apart)]
        self.number[lanes] = parts * number[:k]
        self.size[lanes], self.spread[lanes] = (a.sum(0)[:k] for a in both)

    def _start(
        self, rows: Tensor, x: list[Tensor], y: Tensor, counted: Tensor | None,
        start: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """Values of all parameters, (p, k)."""
        p = self.problem
        if start is not None:
            params = start[:, padded(torch.arange(len(start.mT), device=start.device))].clone()
        elif p.start is not None:
            params = p.start.take(rows, torch.float64).mT.contiguous()
        else:
            assert p.guess is not None
            if counted is None:
                counted = torch.ones_like(y, dtype=torch.bool)
            inside = torch.where(counted, x[0], -torch.inf).amax(0)
            at = torch.where(counted, x[0], inside).mT
            params = p.guess(at, y.real.mT, counted.mT).mT.contiguous()
            params = torch.where(params.isfinite(), params, 1)
        if p.factors is not None and start is None:
            params = params * p.factors[:, None]
        for k, value in p.values.items():
            if value == value:
                params[k] = value
        for k, s in enumerate(p.source):
            if k != s:
                params[k] = params[s]
        return params

    def normal(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """Upper triangle of the normal equations (f + 1, f + 1, width) and what is minimised.

        The first is overwritten by the next call.
        """
        p = self.problem
        if len(p.free) == p.p:
            self.params.copy_(free)
        else:
            where = {k: free[i] for i, k in enumerate(p.free)}
            for k, s in enumerate(p.source):
                if s in where:
                    self.params[k] = where[s]
        args = self.params, self.y, *self.x
        more = [a for a in (self.each, self.counted) if a is not None]
        key = self.width, self.each is not None, self.counted is not None
        script = None if self.scripts is None else self.scripts.find(key, (*args, *more))
        if script is not None:
            matrix, chi2 = script(*args, *more)
            return matrix, chi2
        assert self.slopes is not None
        if self.sums is None:
            self.sums = make_sums(p, self.width)
        return sum_up(p, self.slopes, self.sums, key, *args, *more)

    def gradient(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """Half the gradient (f, width), and what is minimised."""
        matrix, chi2 = self.normal(free)
        return matrix[:-1, -1].clone(), chi2


def make_sums(problem: Problem, width: int) -> Sums:
    """For tiles of a width."""
    points = problem.points * (2 if problem.dtype.is_complex else 1)
    return Sums(len(problem.free) + 1, points, width, problem.device)


def sum_up(
    problem: Problem, slopes: Slopes, sums: Sums, key: tuple[int, bool, bool], *args: Tensor
) -> tuple[Tensor, Tensor]:
    """The model and its sums over points, of nothing but tensors.

    Parameters
    ----------
    key : width, whether there are weights, whether points are left out
    *args : parameters, y, each x, then weights and what counts as far as there are
    """
    params, y, *rest = args
    count = len(problem.x)
    x, more = [v.mT for v in rest[:count]], [m.mT for m in rest[count:]]
    value, found = slopes(tuple(x) if problem.several else x[0], params.mT)
    each = more[0] if key[1] else None
    counted = more[-1] if key[2] else None
    weights = Weights(each, counted, problem.loss, problem.scale)
    return sums.add_up(value - y.mT, found, weights)
