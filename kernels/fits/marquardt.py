"""Levenberg-Marquardt on a tile of rows, each with its own damping, its own end.

(J^T J + mu D^2) step = -J^T r, with D the largest norms that the columns of J have had (J. J. Moré,
The Levenberg-Marquardt algorithm, 1978, 5), so that the units of the parameters do not matter. The
damping follows the gain ratio (H. B. Nielsen, Damping parameter in Marquardt's method, IMM-REP-
1999-05): mu *= max(SHRINK, 1 - (2 rho - 1)^3) where a step is taken, mu *= 2, 4, 8, ... where not.
His smallest factor is 1/3; a tenth, as Marquardt's (1963), saves evaluations near the end. As mu
goes to 0 the step becomes Gauss-Newton's.

A row has converged when the Gauss-Newton step from where it stands would move no combination of
parameters by more than 100 `tol` of its standard error (the relative offset of D. M. Bates and D. G.
Watts, Technometrics 23 (1981) 179), and what it leaves, by the rate at which the offset fell last,
is less than `tol`; or its residuals are rounding, or the step is. That last step is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernels.fits.answer import Answer, Queue
from kernels.fits.bounds import Bounds
from kernels.fits.jacobian import Slopes
from kernels.fits.normal import LANES, eliminate, invert, substitute
from kernels.fits.result import FitStatus
from kernels.fits.tile import Tile, columns, padded

Tensor = torch.Tensor
FIRST_DAMPING = 1e-3
SHRINK = 0.1
SMALLEST, LARGEST = 1e-15, 1e15
"""Of the damping. Beyond the largest no step in any direction helps."""
EPS = torch.finfo(torch.float64).eps
NOISE = 16 * EPS
"""Changes of the sum of squares below this share of it are rounding."""
SINGULAR = 100 * EPS
"""Pivots of J^T J with unit diagonal below this are zero."""
PROMISE = 0.25
"""A first step that gains less than this share of what it promised sends the row to the descent."""


class Limits(NamedTuple):
    """When to stop."""

    tol: float
    tries: int
    judge: bool  # whether rows whose first step disappoints are handed back


class Marquardt:
    """The lanes of one tile, filled from a queue until that is empty."""

    def __init__(
        self, tile: Tile, bounds: Bounds, answer: Answer, limits: Limits,
        narrow: Slopes | None = None,
    ) -> None:  # fmt: skip
        self._slopes = narrow
        self.tile, self.bounds, self.answer, self.limits = tile, bounds, answer, limits
        p, width = tile.problem, tile.width
        f = len(p.free)
        self.row = columns(width, like=p, dtype=torch.int64) - 1
        self.at, self.trial, self.norms = (columns(width, f, like=p) for _ in range(3))
        self.first, self.step = columns(width, f, like=p), columns(width, f, like=p)
        self.matrix = columns(width, f + 1, f + 1, like=p)
        self.chi2, self.mu, self.nu, self.promised = (columns(width, like=p) for _ in range(4))
        self.offset, self.before = columns(width, like=p), columns(width, like=p)
        self.tries = columns(width, like=p, dtype=torch.int64)
        self.sent_back: list[Tensor] = []

    def run(self, queue: Queue) -> None:
        """Fit all rows of the queue that no other tile takes."""
        while True:
            busy = int((self.row >= 0).sum())
            if not queue.empty and busy <= 3 * self.tile.width // 4:
                self._fill(queue)
                continue
            if busy == 0:
                return
            if queue.empty and busy <= LANES < self.tile.width and self._slopes is not None:
                self._narrow(self._slopes)
            self.advance()

    def _narrow(self, slopes: Slopes) -> None:
        """Move the last rows to a narrower tile."""
        kept = (self.row >= 0).nonzero().squeeze(-1)
        lanes = padded(kept)
        self.tile = self.tile.narrow(lanes, slopes)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[..., lanes].contiguous())
        self.row[len(kept) :] = -1

    def _fill(self, queue: Queue) -> None:
        lanes = (self.row < 0).nonzero().squeeze(-1)
        rows, starts = queue.take(len(lanes))
        lanes = lanes[: len(rows)]
        if not len(rows):
            return
        loaded = self.tile.load(lanes, rows, starts)
        good = loaded.status == FitStatus.converged
        if not bool(good.all()):
            self.answer.refuse(rows[~good], loaded.status[~good])
        self.row[lanes] = torch.where(good, rows, -1)
        start = loaded.start[:, padded(torch.arange(len(rows), device=rows.device))]
        u = self.bounds.inward(start.contiguous())[:, : len(rows)]
        self.trial[:, lanes] = u
        self.at[:, lanes] = u
        self.first[:, lanes] = u.abs()
        self.norms[:, lanes] = 0
        self.chi2[lanes], self.mu[lanes], self.nu[lanes] = torch.inf, FIRST_DAMPING, 2.0
        self.tries[lanes], self.offset[lanes], self.before[lanes] = 0, torch.inf, torch.inf

    def advance(self) -> None:
        """Evaluate the trial points, take or refuse them, and try the next."""
        matrix, chi2 = self.tile.normal(self.bounds.outward(self.trial))
        first = self.tries == 0
        self.tries += 1
        finite = chi2.isfinite() & matrix.flatten(0, 1).sum(0).isfinite()
        gain, noise = self.chi2 - chi2, NOISE * chi2
        taken = finite & (gain >= -noise)
        rho = torch.where(self.promised <= noise, 1.0, gain / self.promised)
        if self.limits.judge:
            self._hand_back((self.tries == 2) & ~(taken & (rho >= PROMISE)))
        self._take(taken, matrix, chi2)
        self._damp(taken, first, rho)
        inside = self._solve(taken)
        stuck = self.mu >= LARGEST
        rounding = self.chi2 <= (8 * EPS) ** 2 * self.tile.size
        still = (self.step.abs() <= 4 * EPS * self.at.abs()).all(0) & ~first
        close = inside & (self.is_near(self.offset, self.before) | rounding | still | stuck)
        over = self.tries >= self.limits.tries
        unfit = first & ~finite
        self._end((self.row >= 0) & (close | over | unfit), rounding | still, unfit, over)

    def is_near(self, offset: Tensor, before: Tensor) -> Tensor:
        """Whether one more step leaves less than it may; `before` was the offset a step ago."""
        rate = (offset / before).clamp(max=0.9)
        return (offset <= 100 * self.limits.tol) & (offset * rate / (1 - rate) <= self.limits.tol)

    def _take(self, taken: Tensor, matrix: Tensor, chi2: Tensor) -> None:
        self.at = torch.where(taken, self.trial, self.at)
        self.chi2 = torch.where(taken, chi2, self.chi2)
        self.matrix = torch.where(taken, matrix, self.matrix)

    def _damp(self, taken: Tensor, first: Tensor, rho: Tensor) -> None:
        bent = 2 * rho - 1
        shrunk = self.mu * (1 - bent * bent * bent).clamp(min=SHRINK)
        down = torch.where(first, self.mu, shrunk)
        self.mu = torch.where(taken, down, self.mu * self.nu).clamp(SMALLEST, 2 * LARGEST)
        self.nu = torch.where(taken, 2.0, self.nu * 2)

    def _solve(self, taken: Tensor) -> Tensor:
        """Set the next step and its relative offset; where it is finite."""
        f = len(self.at)
        matrix = self.matrix
        if self.bounds.any:
            slope = torch.cat([self.bounds.slope(self.at), torch.ones_like(self.chi2)[None]])
            matrix = matrix * slope[:, None] * slope[None, :]
        d = torch.sqrt(matrix[:f].diagonal().mT)
        unit = torch.where(d > 0, d, 1)
        self.norms = torch.maximum(self.norms, d)
        a = matrix[:f] / unit[:, None]
        a[:, :f] /= unit[None, :]
        relative = self.norms / unit
        damping = self.mu * relative * relative
        a[:, :f].diagonal().mT.copy_(1 + damping)
        eliminate_z = eliminate(a)
        z = a[:, f]
        quadratic = (z * z * eliminate_z).sum(0)
        x = substitute(a)
        self.promised = quadratic + (damping * x * x).sum(0)
        self.step = -x / unit
        self.trial = self.at + self.step
        self.before = torch.where(taken, self.offset, self.before)
        self.offset = torch.sqrt(quadratic / (f * self._variance()))
        return self.step.isfinite().all(0)

    def _variance(self) -> Tensor:
        freedom = (self.tile.number - len(self.at)).clamp(min=1)
        return self.chi2 / freedom

    def _hand_back(self, which: Tensor) -> None:
        which = which & (self.row >= 0)
        if bool(which.any()):
            self.sent_back.append(self.row[which])
            self.row[which] = -1

    def _end(self, which: Tensor, rounding: Tensor, unfit: Tensor, over: Tensor) -> None:
        """Look at candidates without damping; those that are done leave their lanes."""
        if not bool(which.any()):
            return
        rows = which.nonzero().squeeze(-1)
        lanes = padded(rows)
        end = _Ending(self, lanes)
        done = end.judge(rounding[lanes], unfit[lanes], over[lanes])[: len(rows)]
        if not bool(done.any()):
            return
        keep = padded(done.nonzero().squeeze(-1))
        self.answer.write(self.row[rows[done]], end.collect(keep))
        self.row[rows[done]] = -1


class _Ending:
    """Candidates for the end, in a tile of their own: their covariance and their last step."""

    def __init__(self, search: Marquardt, lanes: Tensor) -> None:
        self.search, self.lanes = search, lanes
        self.u, self.chi2 = search.at[:, lanes], search.chi2[lanes]
        self.at_bound = torch.zeros_like(self.u, dtype=torch.bool)
        self.slope = torch.ones_like(self.u)
        if search.bounds.any:
            self.at_bound, self.slope = search.bounds.reached(self.u), search.bounds.slope(self.u)
        self._reduce(search.matrix[..., lanes])

    def _reduce(self, matrix: Tensor) -> None:
        """Unit diagonal, in the parameters themselves; those on a bound stand aside."""
        f = len(self.u)
        d = torch.sqrt(matrix[:f].diagonal().mT)
        aside = self.at_bound | ~(d > 0)
        self.unit = torch.where(d > 0, d, 1)
        a = matrix[:f] / self.unit[:, None]
        a[:, :f] /= self.unit[None, :]
        a = torch.where(aside[:, None], 0, a)
        a[:, :f] = torch.where(aside[None, :], 0, a[:, :f])
        a[:, :f].diagonal().mT.copy_(torch.ones_like(d))
        self.scaled = a[:, :f].clone()
        pivots = eliminate(a)
        z = a[:, f]
        variance = self.search._variance()[self.lanes]
        self.offset = torch.sqrt((z * z * pivots).sum(0) / (f * variance))
        self.step = -substitute(a) / self.unit
        self.missing = ~self.at_bound & (~(d > 0) | self._is_nothing(d) | (pivots <= SINGULAR))

    def _is_nothing(self, d: Tensor) -> Tensor:
        """Where a change of a parameter by its own size is not seen in the data."""
        search = self.search
        size = search.bounds.outward(torch.maximum(self.u.abs(), search.first[:, self.lanes])).abs()
        floor = 4 * EPS * torch.sqrt(search.tile.size[self.lanes])
        return (size > 0) & (d * size <= floor)

    def judge(self, rounding: Tensor, unfit: Tensor, over: Tensor) -> Tensor:
        """Decide on each; which are done."""
        search = self.search
        missing = self.missing.any(0)
        stuck = search.mu[self.lanes] >= LARGEST
        near = search.is_near(self.offset, search.before[self.lanes])
        arrived = missing | rounding | near | (stuck & (self.offset <= 1e-4))
        bound = self.at_bound.any(0)
        status = torch.where(missing, FitStatus.singular, torch.where(bound, FitStatus.bound, 0))
        self.status = torch.where(arrived, status, FitStatus.limit)
        self.status = torch.where(unfit, FitStatus.nonfinite, self.status)
        culprit = torch.where(missing, self.missing, self.at_bound).to(torch.int64).argmax(0)
        free = torch.tensor(search.tile.problem.free, device=culprit.device)
        named = (self.status == FitStatus.singular) | (self.status == FitStatus.bound)
        self.parameter = torch.where(named, free[culprit], -1)
        self.arrived = arrived & ~unfit
        return arrived | unfit | over | stuck

    def collect(self, keep: Tensor) -> dict[str, Tensor]:
        """What `Answer.write` takes, of some of the candidates."""
        search, lanes = self.search, self.lanes[keep]
        sound = self.arrived[keep] & (self.status[keep] != FitStatus.singular)
        inverse = invert(self.scaled[..., keep])
        unit, aside = self.unit[:, keep], self.at_bound[:, keep]
        covariance = inverse / unit[:, None] / unit[None, :]
        covariance = torch.where(aside[:, None] | aside[None, :], torch.nan, covariance)
        covariance = torch.where(sound, covariance, torch.nan)
        small = sound & (self.offset[keep] <= 1e-4)
        slope = torch.where(aside, 1, self.slope[:, keep])
        step = torch.where(small & ~aside, self.step[:, keep] / slope, 0)
        u = self.u[:, keep] + torch.where(step.isfinite(), step, 0)
        params = search.tile.params[:, lanes].clone()
        value = search.bounds.outward(u)
        place = {s: i for i, s in enumerate(search.tile.problem.free)}
        for k, s in enumerate(search.tile.problem.source):
            if s in place:
                params[k] = value[place[s]]
        return {
            "params": params,
            "covariance": covariance,
            "status": self.status[keep],
            "parameter": self.parameter[keep],
            "chi2": self.chi2[keep],
            "tries": search.tries[lanes],
            "number": search.tile.number[lanes],
            "spread": search.tile.spread[lanes],
        }

