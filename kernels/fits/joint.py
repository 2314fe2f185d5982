"""`fit_global`: one set of parameters for a whole stack, from sums over its blocks.

The same optimizers and the same Levenberg-Marquardt as for curves, on a tile of one lane whose
normal equations are the caller's sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernels.arguments import check_choice
from kernels.fits.answer import Answer
from kernels.fits.blocks import Sums, add_in_order
from kernels.fits.bounds import Bounds
from kernels.fits.checkpoint import Checkpoint
from kernels.fits.curves import METHODS, TOL
from kernels.fits.descent import RATES, SCHEDULES, Search, Steps
from kernels.fits.marquardt import Limits, Marquardt
from kernels.fits.problem import Problem, pose
from kernels.fits.result import Fit
from kernels.fits.stash import EPS, Stash
from kernels.fits.tile import Tile

Tensor = torch.Tensor
Evaluate = Callable[[Tensor, bool], Sums | Iterable[Sums]]
FALL = 1e-26
"""A sum of squares below this share of that at the start is rounding."""


def fit_global(
    evaluate: Evaluate,
    start: Any,
    *,
    method: str = "adam+lm",
    absolute: bool = False,
    bounds: Any = None,
    fixed: Any = (),
    tied: Any = None,
    names: Any = None,
    tol: float = TOL,
    max_iterations: int | None = None,
    steps: int = 200,
    learning_rate: float | None = None,
    schedule: str = "cosine",
    checkpoint: Any = None,
    every: int = 10,
    minutes: float | None = None,
    report: Callable[[int, float], None] | None = None,
) -> Fit:
    """Fit parameters that a whole stack shares.

    Parameters
    ----------
    evaluate : callable
        evaluate(params, second) -> `Sums`, or the `Sums` of each block in the order of the blocks,
        which are added in that order. params (p,) float64; `second`: whether J^T J is wanted.
        `kernels.sum_block` makes them.
    start : (p,)
    method : `lm`, or an optimizer with `+lm`, as for `kernels.fit`
    absolute : bool
        Whether residuals are in units of their standard deviation; else errors are scaled.
    bounds, fixed, tied, names, tol, max_iterations, steps, learning_rate, schedule
        As for `kernels.fit`.
    checkpoint : path, optional
        Where the state is saved, whole or not at all; if it is there, the search goes on from it,
        to the same bits as without the break.
    every, minutes : save after so many evaluations, or minutes if that is sooner
    report : callable, optional
        report(evaluations, chi2), after each.

    Returns
    -------
    Fit without a batch; `r2` is NaN.

    Raises
    ------
    ValueError
        For arguments that make no sense, and a checkpoint of another fit.
    """
    check_choice("fit_global: method", method, tuple(m for m in METHODS if m.endswith("lm")))
    check_choice("fit_global: schedule", schedule, SCHEDULES)
    problem = _pose(start, bounds, fixed, tied, names, absolute)
    name = method.rpartition("+")[0]
    rate = learning_rate or RATES.get(name, 1.0)
    how = Steps(name, steps, rate, schedule) if name else None
    tries = max_iterations or 100 * (len(problem.free) + 1)
    held = Checkpoint(checkpoint, every, minutes, {
        "start": torch.as_tensor(start, dtype=torch.float64), "free": list(problem.free),
        "source": list(problem.source), "lower": problem.lower, "upper": problem.upper,
        "method": method, "steps": steps, "rate": rate, "schedule": schedule,
    })  # fmt: skip
    tile = _Whole(problem, evaluate)
    return _Joint(tile, held, how, Limits(tol, tries, how is not None), report).run()


def _pose(start: Any, bounds: Any, fixed: Any, tied: Any, names: Any, absolute: bool) -> Problem:
    """As a problem of one curve without data."""
    nothing: Any = torch.zeros(1, dtype=torch.float64)
    if not isinstance(start, torch.Tensor):
        nothing = nothing.numpy()
    return pose(
        lambda x, params: x, nothing, nothing, start, sigma=nothing if absolute else None,
        mask=None, bounds=bounds, fixed=fixed, tied=tied, loss="linear", scale=1.0, names=names,
    )  # fmt: skip


class _Whole(Tile):
    """The stack as a tile of one lane."""

    def __init__(self, problem: Problem, evaluate: Evaluate) -> None:
        super().__init__(problem, 1)
        self.evaluate = evaluate
        self.count = 0
        self._last: tuple[Tensor, bool, Sums] | None = None
        values = problem.start.take(torch.zeros(1, dtype=torch.int64), torch.float64).mT  # type: ignore[union-attr]  # a start is always given here
        self.params.copy_(values)
        for k, value in problem.values.items():
            if value == value:
                self.params[k] = value
        for k, s in enumerate(problem.source):
            self.params[k] = self.params[s]

    def total(self, free: Tensor, second: bool) -> Sums:
        """At free parameters (f, 1)."""
        p = self.problem
        where = {k: free[i] for i, k in enumerate(p.free)}
        for k, s in enumerate(p.source):
            if s in where:
                self.params[k] = where[s]
        params = self.params[:, 0].clone()
        if self._last is not None and self._last[1] == second and params.equal(self._last[0]):
            return self._last[2]
        found = self.evaluate(params, second)
        self.count += 1
        total = found if isinstance(found, Sums) else add_in_order(found)
        self.number[:] = total.number
        if self.size[0] == 0:
            self.size[:] = total.chi2 * (FALL / (8 * EPS) ** 2)
        self._last = params, second, total
        return total

    def normal(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """As of a tile: derivatives with tied parameters added to those of their source."""
        total, f = self.total(free, True), len(free)
        if total.normal is None:
            raise ValueError("fit_global: evaluate: got no normal, expected it when second is true")
        gather = self._gather()
        matrix = torch.zeros(f + 1, f + 1, 1, dtype=torch.float64)
        matrix[:f, :f, 0] = gather @ total.normal.cpu() @ gather.mT
        matrix[:f, f, 0] = gather @ total.gradient.cpu()
        matrix[f, f, 0] = total.chi2
        return matrix, matrix[f, f].clone()

    def gradient(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """As of a tile."""
        total = self.total(free, False)
        return (self._gather() @ total.gradient.cpu())[:, None], total.chi2.reshape(1).cpu()

    def _gather(self) -> Tensor:
        p = self.problem
        rows = [[float(s == k) for s in p.source] for k in p.free]
        return torch.tensor(rows, dtype=torch.float64)


class _Joint:
    """The search, whose whole state can be saved after each evaluation."""

    def __init__(
        self, tile: _Whole, held: Checkpoint, steps: Steps | None, limits: Limits, report: Any
    ) -> None:
        self.tile, self.held, self.steps, self.limits = tile, held, steps, limits
        self.report = report
        p = tile.problem
        self.bounds = Bounds(p.lower, p.upper)
        self.answer = Answer(p)
        self.stash = Stash(self.answer)
        self.start = self.bounds.inward(tile.params[list(p.free)])

    def run(self) -> Fit:
        """Search, from the checkpoint if there is one."""
        state = self.held.load()
        with torch.no_grad():
            stage = self._begin(state)
            if stage == "done":
                return self.answer.give()
            last = self.limits._replace(judge=False)
            u = self.start
            if stage == "march" and self._march(u, state, self.limits, stage):
                state, stage = None, "descent"
            if stage == "descent":
                u, state, stage = self._descend(state), None, "last"
            if stage == "last":
                self._march(u, state, last, stage)
            self.stash.flush()
        self.answer.fit.iterations[0] = self.tile.count
        done = {"stage": "done", "fit": list(self.answer.fit), "count": self.tile.count}
        self.held.save(done, self.tile.count, now=True)
        return self.answer.give()

    def _begin(self, state: Any) -> str:
        """Where to go on."""
        tile = self.tile
        if state is None:
            tile.total(self.bounds.outward(self.start), True)  # how many data there are
            return "march"
        tile.count = state["count"]
        if state["stage"] == "done":
            self.answer.fit = Fit(*state["fit"])
        else:
            tile.size.copy_(state["size"])
            tile.number.copy_(state["number"])
        return str(state["stage"])

    def _march(self, u: Tensor, state: Any, limits: Limits, stage: str) -> bool:
        """Levenberg-Marquardt; whether it handed back."""
        search = Marquardt(self.tile, self.bounds, self.stash, limits)
        zero = torch.zeros(1, dtype=torch.int64)
        search.place(zero, zero, u)
        if state is not None:
            search.restore(state["search"])
        while bool(search.row[0] >= 0):
            search.advance()
            if bool(search.parked[0]):
                search.harvest()
            if bool(search.row[0] >= 0):
                self._save(stage, search.dump(), search.chi2)
        return bool(search.sent_back)

    def _descend(self, state: Any) -> Tensor:
        """The optimizer; the best variables it saw."""
        assert self.steps is not None
        row = torch.zeros(1, dtype=torch.int64)
        search = Search(self.tile, self.bounds, self.steps, self.start, row)
        begun = 0
        if state is not None:
            search.restore(state["search"])
            begun, self.tile.count = state["search"]["step"], state["count"]
        for step in range(begun, self.steps.number):
            if not bool(search.active[0]):
                break
            search.advance(step)
            self._save("descent", {**search.dump(), "step": step + 1}, search.lowest)
        return search.place(search.best)

    def _save(self, stage: str, search: dict[str, Any], chi2: Tensor) -> None:
        tile = self.tile
        if self.report is not None:
            self.report(tile.count, float(chi2[0]))
        state = {"stage": stage, "search": search, "count": tile.count, "size": tile.size,
                 "number": tile.number}  # fmt: skip
        self.held.save(state, tile.count)
