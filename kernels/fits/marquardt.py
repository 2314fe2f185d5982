"""Levenberg-Marquardt on a tile of rows, each with its own damping, its own end.

(J^T J + mu D^2) step = -J^T r, with D the largest norms that the columns of J have had (J. J. Moré,
The Levenberg-Marquardt algorithm, 1978, 5), so that the units of the parameters do not matter. The
damping follows the gain ratio (H. B. Nielsen, Damping parameter in Marquardt's method, IMM-REP-
1999-05): mu *= max(SHRINK, 1 - (2 rho - 1)^3) where a step is taken, mu *= 2, 4, 8, ... where not.
His smallest factor is 1/3; a tenth, as Marquardt's (1963), saves evaluations near the end. As mu
goes to 0 the step becomes Gauss-Newton's.

A row has converged when the Gauss-Newton step from where it stands would move no combination of
parameters by more than 100 `tol` of its standard error (the relative offset of D. M. Bates and D.
G. Watts, Technometrics 23 (1981) 179), and what it leaves, by the rate at which the offset fell
last, is less than `tol`; or its residuals are rounding, or the step is. That last step is taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from kernels.fits.answer import Queue
from kernels.fits.bounds import Bounds
from kernels.fits.jacobian import Slopes
from kernels.fits.normal import LANES, Elimination
from kernels.fits.result import FitStatus
from kernels.fits.script import Scripts
from kernels.fits.stash import EPS, Stash, Stopped, is_near
from kernels.fits.tile import Tile, columns, padded

Tensor = torch.Tensor
FIRST_DAMPING = 1e-3
SHRINK = 0.1
SMALLEST, LARGEST = 1e-15, 1e15
"""Of the damping. Beyond the largest no step in any direction helps."""
NOISE = 1e-12
"""A promised change of the sum of squares below this share of it may be lost in its rounding: then
the gradient, in the units of D, must fall for a step to be taken, and to a quarter for mu to."""
PROMISE = 0.25
"""A first step that gains less than this share of what it promised sends the row to the descent."""

REFILL = 0.6
"""When fewer lanes than this share of a tile are at work, rows that are done make room."""

STATE = (
    "row", "at", "trial", "norms", "matrix", "chi2", "mu", "nu", "promised", "offset", "before",
    "tries", "parked", "rounding", "unfit", "_steep", "_scale", "_share", "_floor",
)  # fmt: skip


class Limits(NamedTuple):
    """When to stop."""

    tol: float
    tries: int
    judge: bool  # whether rows whose first step disappoints are handed back


class Marquardt:
    """The lanes of one tile, filled from a queue until that is empty.

    A row that is at its end is parked in its lane until many are: what is done once for all of them
    costs as much for one.
    """

    def __init__(
        self,
        tile: Tile,
        bounds: Bounds,
        stash: Stash,
        limits: Limits,
        narrow: Slopes | None = None,
        scripts: Scripts | None = None,
    ) -> None:
        self.tile, self.bounds, self.stash, self.limits = tile, bounds, stash, limits
        self._narrower, self.scripts = narrow, scripts
        p, width = tile.problem, tile.width
        f = len(p.free)
        self.row = columns(width, like=p, dtype=torch.int64) - 1
        self.at, self.trial, self.norms = (columns(width, f, like=p) for _ in range(3))
        self.first = columns(width, f, like=p)
        self.matrix = columns(width, f + 1, f + 1, like=p)
        self.chi2, self.mu, self.nu, self.promised = (columns(width, like=p) for _ in range(4))
        self.offset, self.before, self.tries = (columns(width, like=p) for _ in range(3))
        self.parked, self.rounding, self.unfit = (
            columns(width, like=p, dtype=torch.bool) for _ in range(3)
        )
        self._steep, self._scale = columns(width, like=p), columns(width, f, like=p)
        self._step = columns(width, f, like=p)
        self.sent_back: list[Tensor] = []
        self._free = torch.tensor(p.free, device=p.device)
        self._set_up()

    def _set_up(self) -> None:
        """What follows from the width, and from the data."""
        f = len(self.at)
        self._solver = Elimination(f, self.tile.width, self.at.device)
        self._follow_data()

    def _follow_data(self) -> None:
        f = len(self.at)
        self._share = f / (self.tile.number - f).clamp(min=1)
        self._floor = self.tile.size * (8 * EPS) ** 2

    def run(self, queue: Queue) -> None:
        """Fit all rows of the queue that no other tile takes."""
        enough = int(REFILL * self.tile.width)
        while True:
            rows = int((self.row >= 0).sum())
            waiting = int(self.parked.sum())
            if waiting and self._is_time(rows - waiting, queue.empty):
                self.harvest()
                continue
            if not queue.empty and rows <= enough:
                self._fill(queue)
                continue
            if rows == 0:
                return
            if queue.empty and rows <= LANES < self.tile.width and self._narrower is not None:
                self._narrow(self._narrower)
            self.advance()

    def _is_time(self, moving: int, last: bool) -> bool:
        """Whether to look at the parked rows: lanes are wanted, or nothing else is to be done."""
        if moving == 0:
            return True
        width = self.tile.width
        return moving <= LANES < width if last else moving <= REFILL * width

    def _narrow(self, slopes: Slopes) -> None:
        """Move the last rows to a narrower tile."""
        kept = (self.row >= 0).nonzero().squeeze(-1)
        lanes = padded(kept)
        self.tile, self.scripts = self.tile.narrow(lanes, slopes), None
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name != "_free":
                setattr(self, name, value.index_select(-1, lanes))
        self.row[len(kept) :] = -1
        self.parked[len(kept) :] = False
        self._set_up()

    def _fill(self, queue: Queue) -> None:
        lanes = (self.row < 0).nonzero().squeeze(-1)
        rows, starts = queue.take(len(lanes))
        lanes = lanes[: len(rows)]
        if not len(rows):
            return
        loaded = self.tile.load(lanes, rows, starts)
        good = loaded.status == FitStatus.converged
        if not bool(good.all()):
            self.stash.answer.refuse(rows[~good], loaded.status[~good])
        u = self.bounds.inward(loaded.start)[:, : len(rows)]
        self.place(lanes, torch.where(good, rows, -1), u)

    def place(self, lanes: Tensor, rows: Tensor, u: Tensor) -> None:
        """Begin with rows, whose data are in the tile, at variables (f, k)."""
        self.row[lanes] = rows
        self.trial[:, lanes], self.at[:, lanes], self.first[:, lanes] = u, u, u.abs()
        self.norms[:, lanes] = 0
        self.chi2[lanes], self.mu[lanes], self.nu[lanes] = torch.inf, FIRST_DAMPING, 2.0
        self.tries[lanes], self.promised[lanes] = 0, torch.inf
        self.offset[lanes], self.before[lanes] = torch.inf, torch.inf
        self._follow_data()

    def dump(self) -> dict[str, Tensor]:
        """The whole state, for `restore` of another search of the same rows."""
        return {k: v.clone() for k, v in vars(self).items() if isinstance(v, Tensor)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        for name, value in state.items():
            setattr(self, name, value)
        self._set_up()

    def advance(self) -> None:
        """Evaluate the trial points, take or refuse them, and find the next."""
        matrix, chi2 = self.tile.normal(self.bounds.outward(self.trial))
        args = matrix, chi2, *(getattr(self, name) for name in STATE)
        script = self.scripts and self.scripts.find((self.tile.width, self.limits), args)
        if script:
            *found, sent = script(*args)
            for name, value in zip(STATE, found, strict=True):
                setattr(self, name, value)
        else:
            sent = self._follow(matrix, chi2)
        if self.limits.judge:
            self._hand_back(sent)

    def _follow(self, matrix: Tensor, chi2: Tensor) -> Tensor:
        """All of a step but the model, of nothing but tensors; which rows to hand back."""
        moving, first = ~self.parked, self.tries == 0
        self.tries = self.tries + moving
        gain = self.chi2 - chi2
        unseen = self.promised <= NOISE * chi2
        finite = chi2.isfinite() & matrix.diagonal().sum(-1).isfinite()
        steep = (matrix[:-1, -1] * self._scale).square_().sum(0)
        rho = torch.where(unseen, 0.5 + (steep <= self._steep / 16), gain / self.promised)
        taken = finite & moving & torch.where(unseen, steep < self._steep, gain >= 0)
        sent = (self.tries == 2) & moving & ~(taken & (rho >= PROMISE))
        self.at = torch.where(taken, self.trial, self.at)
        self.chi2 = torch.where(taken, chi2, self.chi2)
        self.matrix = torch.where(taken, matrix, self.matrix)
        self._damp(taken, moving, first, rho)
        self._solve(taken)
        self._park(first & ~finite)
        return sent

    def _damp(self, taken: Tensor, moving: Tensor, first: Tensor, rho: Tensor) -> None:
        bent = 2 * rho - 1
        shrunk = (1 - bent * bent * bent).clamp_(min=SHRINK).mul_(self.mu)
        down = torch.where(first, self.mu, shrunk)
        up = torch.where(moving, self.mu * self.nu, self.mu)
        self.mu = torch.where(taken, down, up).clamp_(SMALLEST, 2 * LARGEST)
        self.nu = torch.where(taken, 2.0, torch.where(moving, self.nu * 2, self.nu))

    def _solve(self, taken: Tensor) -> None:
        """The next trial, what it promises, and the relative offset."""
        solver, matrix, slope = self._solver, self.matrix, None
        if self.bounds.any:
            slope = torch.cat([self.bounds.slope(self.at), torch.ones_like(self.chi2)[None]])
            pressed = (matrix[:-1, -1] * self.bounds.curvature(self.at)).clamp_(min=0)
            matrix = matrix * slope[:, None] * slope[None, :]
            matrix[:-1, :-1].diagonal().mT.add_(pressed)
        d = matrix[:-1, :-1].diagonal().mT.sqrt()
        self.norms = torch.maximum(self.norms, d)
        inverse = (d + (d == 0)).reciprocal_()
        torch.mul(matrix[:-1], inverse[:, None], out=solver.system)
        solver.square.mul_(inverse[None])
        relative = self.norms * inverse
        damping = (relative * relative).mul_(self.mu)
        self._steep = solver.system[:, -1].square().sum(0)
        self._scale = inverse if slope is None else inverse * slope[:-1]
        torch.add(damping, 1, out=solver.diagonal)
        quadratic = solver.eliminate()
        x = solver.substitute()
        self.promised = (damping * x).mul_(x).sum(0).add_(quadratic)
        self._step = inverse * x
        self.trial = self.at - self._step
        self.before = torch.where(taken, self.offset, self.before)
        self.offset = (quadratic / (self.chi2 * self._share)).sqrt_()

    def _park(self, unfit: Tensor) -> None:
        """Rows that seem to be at their end."""
        still = (self._step.abs() <= (4 * EPS * self.at).abs_()).all(0)
        rounding = (self.chi2 <= self._floor) | still
        close = is_near(self.offset, self.before, self.limits.tol) | rounding
        close = close | (self.mu >= LARGEST) | (self.tries >= self.limits.tries) | unfit
        close = close & (self.row >= 0)
        new = close & ~self.parked
        self.rounding = torch.where(new, rounding, self.rounding)
        self.unfit = torch.where(new, unfit, self.unfit)
        self.parked = self.parked | close

    def _hand_back(self, which: Tensor) -> None:
        which = which & (self.row >= 0)
        if bool(which.any()):
            self.sent_back.append(self.row[which])
            self.row[which] = -1

    def harvest(self) -> None:
        """Look at the parked rows without damping; those that are done leave."""
        kept = self.parked.nonzero().squeeze(-1)
        lanes, t = padded(kept), self.tile
        which: dict[str, Any] = {
            "row": self.row, "u": self.at, "matrix": self.matrix, "chi2": self.chi2,
            "tries": self.tries, "before": self.before, "stuck": self.mu >= LARGEST,
            "over": self.tries >= self.limits.tries, "unfit": self.unfit,
            "rounding": self.rounding, "size": t.size, "number": t.number, "spread": t.spread,
            "first": self.first, "params": t.params,
        }  # fmt: skip
        state = {k: v.index_select(-1, lanes) for k, v in which.items()}
        stopped = Stopped(self.bounds, self.limits.tol, state, self._free)
        done = stopped.done[: len(kept)]
        self.parked[kept] = False
        self.row[kept[done]] = -1
        self.stash.add(stopped, done)


def follow(bounds: Bounds, limits: Limits, *args: Tensor) -> tuple[Tensor, ...]:
    """`Marquardt` between two evaluations, as a function of its state."""
    matrix, chi2, *state = args
    search = object.__new__(Marquardt)
    search.bounds, search.limits = bounds, limits
    for name, value in zip(STATE, state, strict=True):
        setattr(search, name, value)
    search._solver = Elimination(len(search.at), chi2.shape[-1], chi2.device)
    sent = search._follow(matrix, chi2)
    return (*(getattr(search, name) for name in STATE), sent)
