"""The first stage: a fused optimizer of torch on one tensor of many rows.

The loss is measured in units of that at the start, and each parameter from its start in units of
the change that by itself would, to first order, undo the loss (at most `REACH` times its size). So
one learning rate serves all rows. torch's optimizers know one step and one rate for the whole
tensor; a row that no longer gains is frozen, with the best parameters it has seen, and when few are
left they move to a narrower tile. What is handed on is never worse than the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from kernels.fits.answer import Queue
from kernels.fits.bounds import Bounds
from kernels.fits.jacobian import Slopes
from kernels.fits.normal import LANES
from kernels.fits.result import FitStatus
from kernels.fits.tile import Tile, padded

Tensor = torch.Tensor
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
}
RATES = {"sgd": 0.2, "adam": 0.05, "adamw": 0.05, "adagrad": 0.5}
"""Learning rates where none is given."""
SCHEDULES = ("constant", "cosine")
PATIENCE = 25
"""Steps that a row may go without gaining `GAIN` of its loss before it is frozen."""
GAIN = 1e-3
REACH = 10.0

_STATE = (
    "z",
    "origin",
    "unit",
    "first",
    "best",
    "lowest",
    "mark",
    "since",
    "count",
    "active",
    "row",
)


class Steps(NamedTuple):
    """How to descend."""

    optimizer: str
    number: int
    rate: float
    schedule: str
    fused: bool = True
    compiled: bool = False

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "constant":
            return self.rate
        return self.rate * 0.5 * (1 + math.cos(math.pi * step / self.number))


def make_optimizer(steps: Steps, params: Tensor) -> torch.optim.Optimizer:
    """The optimizer of one tensor, whose gradient must be contiguous as it is.

    Fused, it is one pass over the tensor; on the CPU the fused SGD updates the wrong elements where
    the layouts of parameter and gradient differ.
    """
    return OPTIMIZERS[steps.optimizer]([params], lr=steps.rate, fused=steps.fused)


class Descent:
    """One tile of rows on their way down."""

    def __init__(self, tile: Tile, bounds: Bounds, steps: Steps, narrow: Slopes | None) -> None:
        self.tile, self.bounds, self.steps, self._narrow = tile, bounds, steps, narrow

    def run(self, queue: Queue, best: Tensor, spent: Tensor, place: Tensor) -> None:
        """Descend with all rows of the queue that no other tile takes.

        Parameters
        ----------
        best : (rows, p), spent : (rows,)
            Filled with the best parameters and the number of steps.
        place : (count,)
            Where each row of the batch lies in them.
        """
        while True:
            rows, _ = queue.take(self.tile.width)
            if not len(rows):
                return
            lanes = torch.arange(len(rows), device=rows.device)
            loaded = self.tile.load(lanes, rows)
            at = place[rows]
            best[at] = self.tile.params[:, : len(rows)].mT
            good = (loaded.status == FitStatus.converged).nonzero().squeeze(-1)
            if len(good):
                self._descend(good, at, best, spent)

    def _descend(self, lanes: Tensor, at: Tensor, best: Tensor, spent: Tensor) -> None:
        tile = self.tile
        free = tile.params[list(tile.problem.free)]
        row = torch.full((tile.width,), -1, device=at.device)
        row[lanes] = at[lanes]
        state = Search(tile, self.bounds, self.steps, self.bounds.inward(free), row)
        for step in range(self.steps.number):
            state.advance(step)
            left = int(state.active.sum())
            if left == 0:
                break
            if left <= LANES < state.tile.width and self._narrow is not None:
                state.save(best, spent, ~state.active)
                state.narrow(self._narrow)
        state.save(best, spent, state.row >= 0)


class Search:
    """Rows, their best parameters, and the optimizer."""

    def __init__(self, tile: Tile, bounds: Bounds, steps: Steps, u: Tensor, row: Tensor) -> None:
        self.tile, self.bounds, self.steps, self.row = tile, bounds, steps, row
        self.origin = u.clone()
        matrix, loss = tile.normal(bounds.outward(u))
        norm = torch.sqrt(loss) / matrix[:-1].diagonal().mT.sqrt()
        if bounds.any:
            norm = norm / bounds.slope(u).abs()
        norm = torch.where(norm.isfinite(), norm, 1)
        self.unit = torch.where(u != 0, torch.minimum(norm, REACH * u.abs()), norm).contiguous()
        half = matrix[:-1, -1].clone()
        self.first = torch.where(loss > 0, loss, 1)
        self.z = torch.zeros_like(self.unit).requires_grad_()
        self.best, self.lowest = torch.zeros_like(self.unit), loss
        self.mark, self.since = loss.clone(), torch.zeros_like(loss)
        self.count = torch.zeros_like(loss)
        self.active = (row >= 0) & loss.isfinite() & half.isfinite().all(0)
        self._set(half)
        self.optimizer = make_optimizer(steps, self.z)
        self._step: Any = self.optimizer.step
        if steps.compiled:
            self._step = torch.compile(self.optimizer.step)

    def dump(self) -> dict[str, Any]:
        """The whole state, for `restore` of another search of the same rows."""
        found: dict[str, Any] = {n: getattr(self, n).detach().clone() for n in _STATE}
        gradient = self.z.grad
        assert gradient is not None
        return {**found, "gradient": gradient.clone(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        with torch.no_grad():
            self.z.copy_(state["z"])
        for name in _STATE:
            if name != "z":
                setattr(self, name, state[name])
        self.z.grad = state["gradient"].contiguous()
        self.optimizer.load_state_dict(state["optimizer"])

    def _set(self, half: Tensor) -> None:
        slope = self.bounds.slope(self.place(self.z.detach())) if self.bounds.any else 1
        gradient = 2 * half * slope * self.unit / self.first
        self.z.grad = torch.where(self.active & gradient.isfinite(), gradient, 0).contiguous()

    def place(self, z: Tensor) -> Tensor:
        """The variables at a displacement."""
        return self.origin + z * self.unit

    def advance(self, step: int) -> None:
        """One step of all active rows."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.steps.rate_at(step)
        before = self.z.detach().clone()
        self._step()
        with torch.no_grad():
            self.z.copy_(torch.where(self.active, self.z, before))  # momentum moves frozen rows too
        half, loss = self.tile.gradient(self.bounds.outward(self.place(self.z.detach())))
        better = self.active & (loss < self.lowest)
        self.best = torch.where(better, self.z.detach(), self.best)
        self.lowest = torch.where(better, loss, self.lowest)
        self.count += self.active
        gained = self.lowest < self.mark * (1 - GAIN)
        self.mark = torch.where(gained, self.lowest, self.mark)
        self.since = torch.where(gained, 0, self.since + 1)
        finite = loss.isfinite() & half.isfinite().all(0)
        self.active = self.active & finite & (self.since < PATIENCE)
        self._set(half)

    def save(self, best: Tensor, spent: Tensor, which: Tensor) -> None:
        """Write out rows."""
        which = which & (self.row >= 0)
        at = self.row[which]
        p, value = self.tile.problem, self.bounds.outward(self.place(self.best))
        where = {s: i for i, s in enumerate(p.free)}
        for k, s in enumerate(p.source):
            if s in where:
                best[at, k] = value[where[s]][which]
        spent[at] = self.count[which].to(spent.dtype)
        self.row = torch.where(which, -1, self.row)

    def narrow(self, slopes: Slopes) -> None:
        """Move what is active to a narrower tile, with the state of the optimizer."""
        kept = self.active.nonzero().squeeze(-1)
        lanes = padded(kept)
        self.tile = self.tile.narrow(lanes, slopes)
        old = self.optimizer
        for name in ("origin", "unit", "first", "best", "lowest", "mark", "since", "count",
                     "active", "row"):  # fmt: skip
            setattr(self, name, getattr(self, name)[..., lanes].contiguous())
        self.active[len(kept) :] = False
        self.row[len(kept) :] = -1
        gradient = self.z.grad
        assert gradient is not None
        state = old.state[self.z]
        self.z = self.z.detach()[:, lanes].contiguous().requires_grad_()
        self.z.grad = gradient[:, lanes].contiguous()
        self.optimizer = make_optimizer(self.steps, self.z)
        for name, value in state.items():
            wide = isinstance(value, Tensor) and value.ndim == 2
            self.optimizer.state[self.z][name] = value[:, lanes].contiguous() if wide else value
        self._step = self.optimizer.step
