"""Scalar functions and their divided differences, without cancellation where arguments are close.

f[a, b] = (f(a) - f(b)) / (a - b) and f[a, b, c] are what derivatives of f(A) are made of
(Daleckii and Krein 1965; Higham, Functions of Matrices, 2008, chapter 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

Tensor = torch.Tensor


class Scalar(NamedTuple):
    """exp, log or a power: what is applied to eigenvalues."""

    name: str  # "exp", "log" or "power"
    p: float

    @property
    def whole(self) -> bool:
        """A whole power, good for negative numbers too."""
        return self.name == "power" and self.p == int(self.p) and abs(self.p) <= 1024

    @property
    def positive(self) -> bool:
        """Zero is not in its domain."""
        return self.name == "log" or (self.name == "power" and self.p < 0)

    def apply(self, x: Tensor) -> Tensor:
        if self.name == "exp":
            return x.exp()
        if self.name == "log":
            return x.log()
        return x.sqrt() if self.p == 0.5 else x**self.p

    def slope(self, x: Tensor) -> Tensor:
        """f'(x)."""
        if self.name == "exp":
            return x.exp()
        if self.name == "log":
            return 1 / x
        return torch.zeros_like(x) if self.p == 0 else self.p * x ** (self.p - 1)

    def curve(self, x: Tensor) -> Tensor:
        """f''(x) / 2."""
        if self.name == "exp":
            return x.exp() / 2
        if self.name == "log":
            return -0.5 / (x * x)
        factor = self.p * (self.p - 1) / 2
        return torch.zeros_like(x) if factor == 0 else factor * x ** (self.p - 2)

    def first(self, a: Tensor, b: Tensor) -> Tensor:
        """f[a, b], to a few units of rounding."""
        if self.name == "exp":
            half = (a - b) / 2
            close = half.abs() < 1
            ratio = torch.where(half == 0, 1, half.sinh() / torch.where(half == 0, 1, half))
            far = (a.exp() - b.exp()) / torch.where(close, 1, a - b)
            return torch.where(close, ((a + b) / 2).exp() * ratio, far)
        if self.whole:
            return _whole_power(a, b, int(self.p))
        if self.name == "power" and self.p == 0.5:
            return 1 / (a.sqrt() + b.sqrt())
        high, low = torch.maximum(a, b), torch.minimum(a, b)
        gap = high - low
        close = gap <= low
        x = torch.where(close & (gap > 0), gap / low, 0)
        safe, apart = torch.where(x == 0, 1, x), torch.where(close, 1, gap)
        if self.name == "log":
            near = torch.where(x == 0, 1, x.log1p() / safe) / low
            return torch.where(close, near, (high / low).log() / apart)
        p = self.p
        near = torch.where(x == 0, p, (p * x.log1p()).expm1() / safe) * low ** (p - 1)
        return torch.where(close, near, (high**p - low**p) / apart)

    def second(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """f[a, b, c]: over the widest gap, or, where all are close, Hermite and Genocchi's
        integral of f'' by Gauss's rule, whose error is below (gap / scale)^14."""
        low, high = torch.minimum(torch.minimum(a, b), c), torch.maximum(torch.maximum(a, b), c)
        middle = torch.maximum(torch.minimum(torch.maximum(a, b), c), torch.minimum(a, b))
        if self.name == "exp":
            scale = torch.ones_like(low)
        else:
            scale = torch.minimum(low.abs(), high.abs())
            if self.whole and self.p >= 0:
                scale = torch.maximum(low.abs(), high.abs()) / max(1.0, self.p / 4)
        gap = high - low
        close = gap <= 0.1 * scale
        wide = (self.first(high, middle) - self.first(middle, low)) / torch.where(close, 1, gap)
        if not bool(close.any()):
            return wide
        out = wide.clone()
        out[close] = self._genocchi(*(x.expand_as(out)[close] for x in (low, middle, high)))
        return out

    def _genocchi(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        nodes, weights = (x.tolist() for x in np.polynomial.legendre.leggauss(7))
        total = torch.zeros_like(a)
        for x, w in zip(nodes, weights, strict=True):
            u = (1 + x) / 2
            for y, v in zip(nodes, weights, strict=True):
                t = u * (1 + y) / 2
                at = a + u * (b - a) + t * (c - b)
                total = total + (w * v * u / 2) * self.curve(at)
        return total


def _whole_power(a: Tensor, b: Tensor, p: int) -> Tensor:
    """The sum of a^k b^(p-1-k), by doubling; for p < 0 over -(a b)^|p|."""
    m = abs(p)
    total, ak, bk = torch.zeros_like(a + b), torch.ones_like(a), torch.ones_like(b)
    for bit in bin(m)[2:]:
        total, ak, bk = total * (ak + bk), ak * ak, bk * bk
        if bit == "1":
            total, ak, bk = a * total + bk, ak * a, bk * b
    return total if p >= 0 else -total / (ak * bk)
