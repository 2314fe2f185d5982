"""Bounds by change of variables, as MINUIT has them.

lower + upper: p = lo + (hi - lo) / 2 (sin u + 1); lower alone: p = lo - 1 + sqrt(u^2 + 1); upper
alone: p = hi + 1 - sqrt(u^2 + 1). F. James, MINUIT Reference Manual, CERN D506, 1.2.1 and 1.2.3;
the same in lmfit (`Parameter.setup_bounds`). Where the gradient g pushes a parameter onto its
bound, g d^2p/du^2 > 0 belongs to the curvature with respect to u, and is all of it on the bound:
with it the way there is quadratic too. sqrt(u^2 + 1) - 1 is written as u^2 / (1 + sqrt(u^2 + 1)),
which does not cancel. Errors are those of p, not of u.
"""

from __future__ import annotations

import torch

Tensor = torch.Tensor
INSIDE = 1e-3
"""A start on or beyond a bound is moved inside by this share of the range (of max(|bound|, 1) if
there is one bound): the derivative with respect to u is zero on a bound, and nothing would move."""
AT_BOUND = 1e-3
"""|dp/du| below this, relative to its largest (to 1 for one bound), counts as on the bound."""


class Bounds:
    """Lower and upper limits (p,) of the free parameters; infinite where there is none."""

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        self.any = bool((lower > -torch.inf).any() or (upper < torch.inf).any())
        self.lower, self.upper = lower[:, None], upper[:, None]
        below, above = self.lower > -torch.inf, self.upper < torch.inf
        self._both, self._low, self._high = below & above, below & ~above, above & ~below
        self._half = torch.where(self._both, (self.upper - self.lower) / 2, 1.0)
        self._from = torch.where(self._both | self._low, self.lower, 0.0)
        self._top = torch.where(self._high, self.upper, 0.0)

    def outward(self, u: Tensor) -> Tensor:
        """The parameters (p, rows) of the variables."""
        if not self.any:
            return u
        both = self._from + self._half * (torch.sin(u) + 1)
        rise = u * u / (1 + torch.sqrt(u * u + 1))
        out = torch.where(self._both, both.clamp(self.lower, self.upper), u)
        out = torch.where(self._low, self._from + rise, out)
        return torch.where(self._high, self._top - rise, out)

    def inward(self, p: Tensor) -> Tensor:
        """The variables of the parameters, moved inside first."""
        if not self.any:
            return p
        p = self._move_inside(p)
        share = ((p - self._from) / self._half - 1).clamp(-1, 1)
        rise = torch.where(self._low, p - self._from, self._top - p).clamp(min=0)
        one = torch.sqrt(rise * (rise + 2))
        out = torch.where(self._both, torch.asin(share), p)
        return torch.where(self._low | self._high, one, out)

    def _move_inside(self, p: Tensor) -> Tensor:
        range_ = torch.where(self._both, 2 * self._half, 1.0)
        low = torch.where(self._low, self.lower.abs().clamp(min=1), range_)
        high = torch.where(self._high, self.upper.abs().clamp(min=1), range_)
        p = torch.where(p <= self.lower, self.lower + INSIDE * low, p)
        return torch.where(p >= self.upper, self.upper - INSIDE * high, p)

    def slope(self, u: Tensor) -> Tensor:
        """dp/du, (p, rows)."""
        one = u / torch.sqrt(u * u + 1)
        out = torch.where(self._both, self._half * torch.cos(u), torch.ones_like(u))
        out = torch.where(self._low, one, out)
        return torch.where(self._high, -one, out)

    def curvature(self, u: Tensor) -> Tensor:
        """d^2p/du^2, (p, rows)."""
        root = torch.sqrt(u * u + 1)
        one = 1 / (root * root * root)
        out = torch.where(self._both, -self._half * torch.sin(u), torch.zeros_like(u))
        out = torch.where(self._low, one, out)
        return torch.where(self._high, -one, out)

    def reached(self, u: Tensor) -> Tensor:
        """Where a parameter lies on its bound."""
        bounded = self._both | self._low | self._high
        return bounded & (self.slope(u).abs() <= AT_BOUND * self._half)
