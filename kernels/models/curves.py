"""Curves without a peak: decays, powers, polynomials, constants."""

from __future__ import annotations

import torch

from kernels.models.parts import Guess, Model, Tensor, column, extreme, level

DEGREES = range(8)


def exponential(x: Tensor, params: Tensor) -> Tensor:
    """amplitude exp(-x / decay)."""
    return column(params, 0) * torch.exp(-x / column(params, 1))


def powerlaw(x: Tensor, params: Tensor) -> Tensor:
    """amplitude x^exponent."""
    return column(params, 0) * x ** column(params, 1)


def constant(x: Tensor, params: Tensor) -> Tensor:
    """c."""
    return column(params, 0) + torch.zeros_like(x)


def linear(x: Tensor, params: Tensor) -> Tensor:
    """slope x + intercept."""
    return column(params, 0) * x + column(params, 1)


def polynomial(x: Tensor, params: Tensor) -> Tensor:
    """c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
    degree = params.shape[-1] - 1
    out = column(params, degree) + torch.zeros_like(x)
    for k in range(degree - 1, -1, -1):
        out = out * x + column(params, k)
    return out


def _line(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Intercept and slope of the straight line through weighted points."""
    total = weight.sum(-1)
    mean_x, mean_y = (weight * x).sum(-1) / total, (weight * y).sum(-1) / total
    dx, dy = x - mean_x[..., None], y - mean_y[..., None]
    slope = (weight * dx * dy).sum(-1) / (weight * dx * dx).sum(-1)
    return mean_y - slope * mean_x, slope


def _guess_decay(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
    """From the straight line through log |y|, weighted by y^2: the errors of the logarithm."""
    front, slope = _line(x, torch.log(y.abs().clamp(min=1e-300)), torch.where(counted, y * y, 0))
    return torch.stack([_signed(torch.exp(front), y, counted), -1 / slope], -1)


def _guess_power(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
    good = counted & (x > 0)
    logs = torch.log(torch.where(good, x, 1)), torch.log(y.abs().clamp(min=1e-300))
    front, slope = _line(*logs, torch.where(good, y * y, 0))
    return torch.stack([_signed(torch.exp(front), y, counted), slope], -1)


def _signed(size: Tensor, y: Tensor, counted: Tensor) -> Tensor:
    top, bottom = extreme(y, counted, 1.0), extreme(y, counted, -1.0)
    return torch.where(top.abs() >= bottom.abs(), size, -size)


def _guess_line(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
    intercept, slope = _line(x, y, counted.to(y.dtype))
    return torch.stack([slope, intercept], -1)


def _guess_level(count: int, at: int) -> Guess:
    """The median for the constant, 0 for all else: for linear models any start will do."""

    def guess(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
        middle = level(y, counted, 0.5)
        columns = [middle if k == at else torch.zeros_like(middle) for k in range(count)]
        return torch.stack(columns, -1)

    return guess


CURVES = {
    "exponential": Model(exponential, ("amplitude", "decay"), _guess_decay, {}, {}),
    "powerlaw": Model(powerlaw, ("amplitude", "exponent"), _guess_power, {}, {}),
    "constant": Model(constant, ("c",), _guess_level(1, 0), {}, {}),
    "linear": Model(linear, ("slope", "intercept"), _guess_line, {}, {}),
    **{
        f"polynomial{d}": Model(
            polynomial, tuple(f"c{k}" for k in range(d + 1)), _guess_level(d + 1, 0), {}, {}
        )
        for d in DEGREES
    },
}
BACKGROUNDS = ("constant", "linear", *(f"polynomial{d}" for d in DEGREES))
