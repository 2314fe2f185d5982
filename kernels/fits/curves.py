"""`fit`: a model fitted to many curves at once, each fit by itself."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import torch

from kernels.arguments import check_choice, check_threads
from kernels.fits.answer import Answer, Queue
from kernels.fits.bounds import Bounds
from kernels.fits.descent import OPTIMIZERS, RATES, SCHEDULES, Descent, Steps
from kernels.fits.jacobian import Slopes, check_model, differentiate
from kernels.fits.marquardt import Limits, Marquardt, follow
from kernels.fits.normal import LANES
from kernels.fits.problem import Problem, pose
from kernels.fits.result import Fit
from kernels.fits.script import WORTH, Scripts
from kernels.fits.stash import Stash
from kernels.fits.threads import share
from kernels.fits.tile import Tile, make_sums, sum_up, width_for

METHODS = ("lm", *OPTIMIZERS, *(f"{name}+lm" for name in OPTIMIZERS))
TOL = 1e-8
FIRST_ORDER_TOL = 1e-4
"""Of the methods without Levenberg-Marquardt: within 1% of a standard error."""
STEPS = {"adam+lm": 200, "adam": 2000}


def fit(
    model: Any,
    x: Any,
    y: Any,
    start: Any = None,
    *,
    method: str = "adam+lm",
    sigma: Any = None,
    mask: Any = None,
    bounds: Any = None,
    fixed: Any = (),
    tied: Any = None,
    loss: str = "linear",
    loss_scale: float = 1.0,
    names: Any = None,
    tol: float | None = None,
    max_iterations: int | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    schedule: str = "cosine",
    starts: int = 1,
    spread: float = 0.5,
    compile: bool = False,
    threads: int | None = None,
) -> Fit:
    """Fit a model to every curve of a stack.

    Parameters
    ----------
    model : str or callable
        A name of `kernels.models`, or model(x, params) of torch operations: x (rows, points), or a
        tuple of such if `x` is a tuple, params (rows, p), the value (rows, points), real or
        complex. It takes params[..., i:i+1], and must keep to each row by itself.
    x : (points,) or (batch..., points), or a tuple of several variables
    y : (batch..., points) numpy.ndarray or torch.Tensor
        float32/64, complex64/128 or whole numbers. NaN (in x, y or sigma) leaves a point out.
    start : (p,) or (batch..., p)
        None: the guess of a named model.
    method : str
        `lm`; `adam`, `adamw`, `adagrad`, `sgd`; or one of these with `+lm`: then a row whose first
        step of Levenberg-Marquardt gains a quarter of what it promises goes on with that, and all
        others descend first; where that leads nowhere, they try without.
    sigma : broadcasts to y
        Standard deviations of y (of both parts if complex). Given, errors are absolute; not, they
        are scaled by the square root of chi2 / (points - free parameters).
    mask : bool, broadcasts to y
        Which points count.
    bounds : mapping of names or indices to (low, high), or (lower, upper) arrays
        None within: no bound. See `kernels.fits.bounds`. A named model has its own.
    fixed : names or indices, or mapping of these to values
        Held at the start, or at the value.
    tied : mapping of names or indices
        {"gamma": "sigma"}: the first has the value of the second.
    loss, loss_scale : `linear`, `soft_l1` or `cauchy`, see `kernels.fits.losses`
    names : of the parameters, for a model that is a function
    tol : float
        Distance from the minimum in units of the standard error; default 1e-8.
    max_iterations : int
        Evaluations by Levenberg-Marquardt, default 100 (free parameters + 1).
    steps, learning_rate, schedule : of the optimizer; None: `RATES`; `cosine` or `constant`
    starts, spread : int, float
        With more than one start, each start value is also multiplied by exp(u), u spread evenly
        over [-spread, spread], the same for all rows; the best fit of each row is kept.
    compile : bool
        Whether the step of the optimizer goes through torch.compile; the bits are the same.
    threads : int
        None: `torch.get_num_threads()`.

    Returns
    -------
    Fit, of the kind of y, computed in double precision. On the CPU the fit of a row has the same
    bits whatever its neighbours, its place, and the number of threads, as far as `model` does.

    Raises
    ------
    ValueError
        For arguments that make no sense. Never for the numbers in the data: see `FitStatus`.
    """
    problem = pose(model, x, y, start, sigma=sigma, mask=mask, bounds=bounds, fixed=fixed,
                   tied=tied, loss=loss, scale=loss_scale, names=names)  # fmt: skip
    check_choice("fit: method", method, METHODS)
    check_choice("fit: schedule", schedule, SCHEDULES)
    first, _, second = method.rpartition("+")
    name = first or (None if method == "lm" else method)
    default = STEPS["adam+lm" if second == "lm" else "adam"]
    numbers = {"steps": steps or default, "starts": starts, "max_iterations": max_iterations or 1}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"fit: {key}: got {value!r}, expected a whole number >= 1")
    rate = learning_rate or RATES.get(name or "", 1.0)
    for key, real in {"learning_rate": rate, "spread": spread, "tol": tol or TOL}.items():
        if not 0 < real < math.inf:
            raise ValueError(f"fit: {key}: got {real!r}, expected a number > 0")
    how = _How(
        steps=None if name is None else Steps(name, numbers["steps"], rate, schedule,
                                              compiled=compile),
        limits=Limits(
            tol or (TOL if second == "lm" else FIRST_ORDER_TOL),
            1 if second != "lm" else max_iterations or 100 * (len(problem.free) + 1),
            False,
        ),
        only=second != "lm",
        threads=check_threads(threads),
    )  # fmt: skip
    answer = _Search(problem, how).run()
    for k in range(1, starts):
        other = dataclasses.replace(problem, factors=_factors(k, problem.p, spread))
        answer.keep_better(_Search(other, how).run())
    return answer.give()


class _How(NamedTuple):
    """The method."""

    steps: Steps | None
    limits: Limits
    only: bool  # whether there is no second stage
    threads: int


class _Search:
    """All rows of a problem, shared among threads."""

    def __init__(self, problem: Problem, how: _How) -> None:
        self.problem, self.how = problem, how
        self.answer = Answer(problem)
        device = problem.device
        self.bounds = Bounds(problem.lower.to(device), problem.upper.to(device))
        self.width = width_for(problem)
        if problem.count <= LANES:
            self.width = LANES
        self.workers = min(how.threads, -(-problem.count // LANES))
        if device.type != "cpu":
            self.workers = 1
        self.slopes: dict[int, Slopes] = {}
        wanted = problem.count >= WORTH and device.type == "cpu"
        self.scripts = Scripts(self._sum_up, wanted)
        self.steps = Scripts(lambda key, *args: follow(self.bounds, key[1], *args), wanted)

    def run(self) -> Answer:
        """Fit all rows."""
        problem, how = self.problem, self.how
        rows = torch.arange(problem.count, device=problem.device)
        if not len(rows):
            return self.answer
        with torch.no_grad():
            self._record(self.width)
            if self.width not in self.slopes or LANES not in self.slopes:
                self._record(LANES)
        if how.steps is not None and how.only:
            self._descend(rows)
        else:
            back = self._march(Queue(rows), how.limits._replace(judge=how.steps is not None))
            if len(back):
                self._descend(back.sort().values)
        return self.answer

    def _record(self, width: int) -> None:
        """The model with its derivatives, for tiles of a width."""
        p, tile = self.problem, Tile(self.problem, width)
        check_model(p.model, tile.variables(), tile.params.mT, p.dtype.is_complex)
        found = differentiate(p.model, tile.variables(), tile.params.mT, p.free, p.source)
        self.slopes[width] = found.slopes
        if not found.sized:
            self.slopes[LANES] = found.slopes
        if found.route != "recorded":
            self.workers, self.scripts = 1, Scripts(self._sum_up, False)

    def _sum_up(self, key: tuple[int, bool, bool], *args: torch.Tensor) -> Any:
        """What is written down as a script."""
        sums = make_sums(self.problem, key[0])
        return sum_up(self.problem, self.slopes[key[0]], sums, key, *args)

    def _make_tile(self) -> Tile:
        tile = Tile(self.problem, self.width, self.slopes[self.width])
        tile.scripts = self.scripts
        return tile

    def _march(self, queue: Queue, limits: Limits) -> torch.Tensor:
        """Levenberg-Marquardt on a queue; the rows that it hands back."""
        back: list[torch.Tensor] = []

        def work() -> None:
            tile = self._make_tile()
            stash = Stash(self.answer)
            search = Marquardt(tile, self.bounds, stash, limits, self.slopes[LANES], self.steps)
            search.run(queue)
            stash.flush()
            back.extend(search.sent_back)

        share(work, self.workers)
        return torch.cat(back) if back else torch.empty(0, dtype=torch.int64)

    def _descend(self, rows: torch.Tensor) -> None:
        """The optimizer on some rows, then Levenberg-Marquardt from where that ends."""
        problem, steps, device = self.problem, self.how.steps, self.problem.device
        assert steps is not None
        best = torch.empty(len(rows), problem.p, dtype=torch.float64, device=device)
        spent = torch.zeros(len(rows), dtype=torch.int32, device=device)
        place = torch.empty(problem.count, dtype=torch.int64, device=device)
        place[rows] = torch.arange(len(rows), device=device)
        queue = Queue(rows)

        def work() -> None:
            tile = self._make_tile()
            Descent(tile, self.bounds, steps, self.slopes[LANES]).run(queue, best, spent, place)

        share(work, self.workers)
        self._march(Queue(rows, best), self.how.limits)
        self.answer.fit.iterations[rows] += spent
        lost = rows[~self.answer.fit.converged[rows]]
        if len(lost) and not self.how.only:  # the descent may have led astray
            other = _Search(problem, self.how._replace(steps=None))
            other.slopes, other.workers = self.slopes, self.workers
            other._march(Queue(lost), self.how.limits)
            self.answer.keep_better(other.answer)


def _factors(k: int, p: int, spread: float) -> torch.Tensor:
    """Of start k: points of a Halton-like lattice, the same for every row (M. Roberts' R_p)."""
    root = 2.0
    for _ in range(64):  # the positive root of r^(p + 1) = r + 1
        root = (1 + root) ** (1 / (p + 1))
    share = [(0.5 + k * root ** -(j + 1)) % 1 for j in range(p)]
    return torch.exp(spread * (2 * torch.tensor(share, dtype=torch.float64) - 1))
