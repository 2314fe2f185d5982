"""Where the results of all rows are gathered."""

from __future__ import annotations

import threading
from typing import Any

import torch

from kernels.fits.problem import Problem
from kernels.fits.result import Fit, FitStatus

Tensor = torch.Tensor


class Queue:
    """Rows that wait for a lane."""

    def __init__(self, rows: Tensor, starts: Tensor | None = None) -> None:
        self._rows, self._starts, self._next = rows, starts, 0
        self._lock = threading.Lock()

    def take(self, count: int) -> tuple[Tensor, Tensor | None]:
        """At most so many rows, and their starts (p, k) if they have their own."""
        with self._lock:
            part = slice(self._next, min(self._next + count, len(self._rows)))
            self._next = part.stop
        starts = self._starts
        return self._rows[part], None if starts is None else starts[part].mT.contiguous()

    @property
    def empty(self) -> bool:
        return self._next >= len(self._rows)


class Answer:
    """One `Fit` of the whole batch, filled row by row."""

    def __init__(self, problem: Problem) -> None:
        n, p, device = problem.count, problem.p, problem.device

        def nan(*shape: int) -> Tensor:
            return torch.full((n, *shape), torch.nan, dtype=torch.float64, device=device)

        def whole(value: int, dtype: torch.dtype) -> Tensor:
            return torch.full((n,), value, dtype=dtype, device=device)

        self.problem = problem
        self.fit = Fit(
            params=nan(p), stderr=nan(p), covariance=nan(p, p), chi2=nan(),
            status=whole(FitStatus.limit, torch.uint8), converged=whole(0, torch.bool),
            iterations=whole(0, torch.int32), redchi=nan(), r2=nan(),
            parameter=whole(-1, torch.int16),
        )  # fmt: skip

    def refuse(self, rows: Tensor, status: Tensor) -> None:
        """Rows that cannot be fitted."""
        self.fit.status[rows] = status.to(torch.uint8)

    def write(self, rows: Tensor, found: dict[str, Tensor]) -> None:
        """Rows that are done: what `Stash` knows of them, in at least as many lanes."""
        p, fit, k = self.problem, self.fit, len(rows)
        status = found["status"]
        failed = status == FitStatus.nonfinite
        params = found["params"]
        place = {s: i for i, s in enumerate(p.free)}
        for j, s in enumerate(p.source):
            if s in place:
                params[j] = found["value"][place[s]]
        fit.params[rows] = torch.where(failed, torch.nan, params)[:, :k].mT
        fit.status[rows] = status[:k].to(torch.uint8)
        sound = (status == FitStatus.converged) | (status == FitStatus.bound)
        fit.converged[rows] = sound[:k]
        fit.iterations[rows] = found["tries"][:k].to(torch.int32)
        fit.parameter[rows] = found["parameter"][:k].to(torch.int16)
        chi2, freedom = found["chi2"], found["number"] - len(p.free)
        redchi = torch.where(freedom > 0, chi2 / freedom, torch.nan)
        for name, value in (("chi2", chi2), ("redchi", redchi), ("r2", 1 - chi2 / found["spread"])):
            getattr(fit, name)[rows] = torch.where(failed | ~value.isfinite(), torch.nan, value)[:k]
        self._write_errors(rows, found["covariance"], redchi)

    def _write_errors(self, rows: Tensor, covariance: Tensor, redchi: Tensor) -> None:
        """Scaled by the reduced chi-square unless sigma was given; 0 for fixed parameters."""
        p, k = self.problem, len(rows)
        if p.sigma is None:
            covariance = covariance * redchi
        place = {s: i for i, s in enumerate(p.free)}
        free = [j for j, s in enumerate(p.source) if s in place]
        at = torch.tensor([place[p.source[j]] for j in free], device=covariance.device)
        wide = torch.zeros(p.p, p.p, covariance.shape[-1], dtype=covariance.dtype,
                           device=covariance.device)  # fmt: skip
        index = torch.tensor(free, device=covariance.device)
        wide[index[:, None], index] = covariance[at[:, None], at]
        stderr = torch.sqrt(wide.diagonal().mT)
        self.fit.covariance[rows] = wide[..., :k].permute(2, 0, 1)
        self.fit.stderr[rows] = stderr[:, :k].mT

    def keep_better(self, other: Answer) -> None:
        """Take over the rows that converged, in the other, to less, or alone."""
        mine, theirs = self.fit, other.fit
        gain = ~mine.converged | (theirs.chi2 < mine.chi2)
        better = theirs.converged & gain
        for here, there in zip(mine, theirs, strict=True):
            here[better] = there[better]

    def give(self) -> Fit:
        """In the shape of the batch, and of the kind of the data."""
        p = self.problem

        def shape(x: Tensor) -> Any:
            if p.single and x.dtype is torch.float64:
                x = x.to(torch.float32)
            x = x.reshape((*p.batch, *x.shape[1:]))
            return x.numpy() if p.numpy else x.to(p.device)

        return Fit(*(shape(x) for x in self.fit))
