"""Rows at the end of their fit: whether they have converged, their last step, their errors."""

from __future__ import annotations

from typing import Any

import torch

from kernels.fits.answer import Answer
from kernels.fits.bounds import Bounds
from kernels.fits.normal import Elimination, invert, symmetric
from kernels.fits.result import FitStatus
from kernels.fits.tile import padded

Tensor = torch.Tensor
EPS = torch.finfo(torch.float64).eps
SINGULAR = 100 * EPS
"""Pivots of J^T J with unit diagonal below this are zero."""
BULK = 4096
"""Rows whose errors are computed together."""


def is_near(offset: Tensor, before: Tensor, tol: float) -> Tensor:
    """Whether one more step leaves less than it may; `before` was the offset a step ago."""
    rate = (offset / before).clamp_(max=0.9)
    return (offset <= 100 * tol) & (offset * rate <= tol * (1 - rate))


class Stopped:
    """Rows that seem to be at their end, looked at without damping.

    In the parameters themselves, not in the variables that stand for those with bounds. One that
    lies on a bound, or moves nothing, stands aside.
    """

    def __init__(self, bounds: Bounds, tol: float, state: dict[str, Any], free: Tensor) -> None:
        self.bounds, self.state, u = bounds, state, state["u"]
        self.aside, self.slope = torch.zeros_like(u, dtype=torch.bool), torch.ones_like(u)
        if bounds.any:
            self.aside, self.slope = bounds.reached(u), bounds.slope(u)
        at_bound = self.aside
        missing = self._reduce() & ~at_bound
        any_missing = missing.any(0)
        near = is_near(self.offset, state["before"], tol) | (
            state["stuck"] & (self.offset <= 1e4 * tol)
        )
        arrived = (any_missing | state["rounding"] | near) & ~state["unfit"]
        self.done = arrived | state["unfit"] | state["over"] | state["stuck"]
        status = torch.where(at_bound.any(0), FitStatus.bound, FitStatus.converged)
        status = torch.where(any_missing, FitStatus.singular, status)
        status = torch.where(arrived, status, FitStatus.limit)
        self.status = torch.where(state["unfit"], FitStatus.nonfinite, status)
        culprit = torch.where(any_missing, missing, at_bound).to(torch.int64).argmax(0)
        named = (self.status == FitStatus.singular) | (self.status == FitStatus.bound)
        self.parameter = torch.where(named, free[culprit], -1)

    def _reduce(self) -> Tensor:
        """Solve for the step; where a parameter is not determined."""
        state, f = self.state, len(self.slope)
        matrix = state["matrix"]
        d = matrix[:f, :f].diagonal().mT.sqrt()
        self.aside = self.aside | ~(d > 0)
        self.unit = torch.where(d > 0, d, 1)
        solver = Elimination(f, matrix.shape[-1], matrix.device)
        solver.system.copy_(torch.where(self.aside[:, None], 0, matrix[:f] / self.unit[:, None]))
        solver.square.copy_(torch.where(self.aside, 0, solver.square / self.unit))
        solver.diagonal.fill_(1)
        self.scaled = solver.square.clone()
        quadratic = solver.eliminate()
        variance = state["chi2"] / (state["number"] - f).clamp(min=1)
        self.offset = (quadratic / (f * variance)).sqrt()
        self.step = -solver.substitute() / self.unit
        lost: Tensor = ~(d > 0) | self._is_nothing(d) | (solver.diagonal <= SINGULAR)
        return lost

    def _is_nothing(self, d: Tensor) -> Tensor:
        """Where a change of a parameter by its own size is not seen in the data."""
        state = self.state
        size = self.bounds.outward(torch.maximum(state["u"].abs(), state["first"])).abs()
        unseen: Tensor = (size > 0) & (d * size <= 4 * EPS * state["size"].sqrt())
        return unseen

    def collect(self) -> dict[str, Tensor]:
        """What the errors are made of, for every row."""
        sound = (self.status == FitStatus.converged) | (self.status == FitStatus.bound)
        usable = sound & (self.offset <= 1e-4)
        step = torch.where(usable & ~self.aside, self.step / self.slope, 0)
        u = self.state["u"] + torch.where(step.isfinite(), step, 0)
        kept = ("row", "params", "chi2", "tries", "number", "spread")
        return {
            **{k: self.state[k] for k in kept},
            "value": self.bounds.outward(u),
            "scaled": self.scaled, "unit": self.unit, "aside": self.aside, "sound": sound,
            "status": self.status, "parameter": self.parameter,
        }  # fmt: skip


class Stash:
    """What is known of rows that are done, until there are many: then their errors are computed."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.pieces: list[dict[str, Tensor]] = []
        self.rows = 0

    def add(self, stopped: Stopped, done: Tensor) -> None:
        """Take over the rows that are done, the first of those looked at."""
        count = int(done.sum())
        if not count:
            return
        found = stopped.collect()
        if count == len(done):  # as most often
            self.pieces.append({k: v[..., :count] for k, v in found.items()})
        else:
            kept = done.nonzero().squeeze(-1)
            self.pieces.append({k: v.index_select(-1, kept) for k, v in found.items()})
        self.rows += count
        if self.rows >= BULK:
            self.flush()

    def flush(self) -> None:
        """Write out all."""
        if not self.rows:
            return
        found = {k: torch.cat([p[k] for p in self.pieces], -1) for k in self.pieces[0]}
        at = padded(torch.arange(self.rows, device=found["row"].device))
        found = {k: v.index_select(-1, at) for k, v in found.items()}
        rows, self.pieces = found["row"][: self.rows], []
        self.rows = 0
        self.answer.write(rows, {**found, "covariance": _covariance(found)})


def _covariance(found: dict[str, Tensor]) -> Tensor:
    """(free, free, rows): inverse of J^T J; NaN where there is none."""
    inverse = invert(symmetric(found["scaled"])) / found["unit"][:, None] / found["unit"]
    aside = found["aside"]
    lost = aside[:, None] | aside | ~found["sound"]
    return torch.where(lost, torch.nan, inverse)
