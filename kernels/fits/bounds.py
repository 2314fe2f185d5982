"""Bounds by change of variables, as MINUIT has them.

lower + upper: p = lo + (hi - lo) / 2 (sin u + 1); lower alone: p = lo - 1 + sqrt(u^2 + 1); upper
alone: p = hi + 1 - sqrt(u^2 + 1). F. James, MINUIT Reference Manual, CERN D506, 1.2.1 and 1.2.3;
the same in lmfit (`Parameter.setup_bounds`). Where the gradient g pushes a parameter onto its
bound, g d^2p/du^2 > 0 belongs to the curvature with respect to u, and is all of it on the bound:
with it the way there is quadratic too. sqrt(u^2 + 1) - 1 is written as u^2 / (1 + sqrt(u^2 + 1)),
which does not cancel. Errors are those of p, not of u.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

Tensor = torch.Tensor
INSIDE = 1e-3
"""A start on or beyond a bound is moved inside by this share of the range (of max(|bound|, 1) if
there is one bound): the derivative with respect to u is zero on a bound, and nothing would move."""
AT_BOUND = 1e-3
"""|dp/du| below this, relative to its largest (to 1 for one bound), counts as on the bound."""


class _Bound(NamedTuple):
    """Limits of one parameter; infinite where there is none."""

    lower: float
    upper: float

    @property
    def half(self) -> float:
        """Half of the range; of one bound 1, the scale of its change of variables."""
        return (self.upper - self.lower) / 2 if self.both else 1.0

    @property
    def both(self) -> bool:
        return self.lower > -math.inf and self.upper < math.inf

    @property
    def sign(self) -> float:
        """Of one bound: 1 for a lower one."""
        return 1.0 if self.lower > -math.inf else -1.0

    @property
    def edge(self) -> float:
        """The one bound."""
        return self.lower if self.lower > -math.inf else self.upper

    def outward(self, u: Tensor) -> Tensor:
        if self.both:
            out = self.lower + self.half * (torch.sin(u) + 1)
            return out.clamp(self.lower, self.upper)
        square = u * u
        return self.edge + self.sign * (square / (1 + torch.sqrt(square + 1)))

    def inward(self, p: Tensor) -> Tensor:
        p = self._move_inside(p)
        if self.both:
            return torch.asin(((p - self.lower) / self.half - 1).clamp(-1, 1))
        rise = (self.sign * (p - self.edge)).clamp(min=0)
        return torch.sqrt(rise * (rise + 2))

    def _move_inside(self, p: Tensor) -> Tensor:
        step = INSIDE * (2 * self.half if self.both else max(abs(self.edge), 1.0))
        p = torch.where(p <= self.lower, self.lower + step, p)
        return torch.where(p >= self.upper, self.upper - step, p)

    def slope(self, u: Tensor) -> Tensor:
        if self.both:
            return self.half * torch.cos(u)
        return self.sign * u / torch.sqrt(u * u + 1)

    def curvature(self, u: Tensor) -> Tensor:
        if self.both:
            return -self.half * torch.sin(u)
        root = torch.sqrt(u * u + 1)
        return self.sign / (root * root * root)


class Bounds:
    """Lower and upper limits (p,) of the free parameters; infinite where there is none.

    All take and give (p, rows).
    """

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        pairs = enumerate(zip(lower.tolist(), upper.tolist(), strict=True))
        self._bounds = {
            k: _Bound(*pair) for k, pair in pairs if pair[0] > -math.inf or pair[1] < math.inf
        }
        self.any = bool(self._bounds)

    def outward(self, u: Tensor) -> Tensor:
        """The parameters of the variables."""
        return self._replace(u, lambda bound, row: bound.outward(row))

    def inward(self, p: Tensor) -> Tensor:
        """The variables of the parameters, moved inside first."""
        return self._replace(p, lambda bound, row: bound.inward(row))

    def slope(self, u: Tensor) -> Tensor:
        """dp/du; 1 without a bound."""
        return self._replace(u, lambda bound, row: bound.slope(row), torch.ones_like)

    def curvature(self, u: Tensor) -> Tensor:
        """d^2p/du^2; 0 without a bound."""
        return self._replace(u, lambda bound, row: bound.curvature(row), torch.zeros_like)

    def reached(self, u: Tensor) -> Tensor:
        """Where a parameter lies on its bound."""
        out = torch.zeros_like(u, dtype=torch.bool)
        for k, bound in self._bounds.items():
            out[k] = bound.slope(u[k]).abs() <= AT_BOUND * bound.half
        return out

    def _replace(
        self, x: Tensor, change: Callable[[_Bound, Tensor], Tensor],
        make: Callable[[Tensor], Tensor] = torch.clone,
    ) -> Tensor:  # fmt: skip
        """The rows that have bounds changed, in a copy, or in something made in its place."""
        if not self.any and make is torch.clone:
            return x
        out = make(x)
        for k, bound in self._bounds.items():
            out[k] = change(bound, x[k])
        return out
