"""Peaks. Gaussian, Lorentzian, Voigt and pseudo-Voigt have unit area times `amplitude`."""

from __future__ import annotations

import math

import torch

from kernels.models.faddeeva import faddeeva
from kernels.models.parts import Guess, Model, Tensor, column, find_bump

_ROOT_2PI = math.sqrt(2 * math.pi)
_HALF = math.sqrt(2 * math.log(2))
"""Half width at half height of a Gaussian, in units of sigma."""


def gaussian(x: Tensor, params: Tensor) -> Tensor:
    """amplitude / (sigma sqrt(2 pi)) exp(-(x - center)^2 / (2 sigma^2))."""
    amplitude, center, sigma = (column(params, k) for k in range(3))
    u = (x - center) / sigma
    return amplitude / (sigma * _ROOT_2PI) * torch.exp(-0.5 * u**2)


def lorentzian(x: Tensor, params: Tensor) -> Tensor:
    """amplitude / pi sigma / ((x - center)^2 + sigma^2)."""
    amplitude, center, sigma = (column(params, k) for k in range(3))
    u = (x - center) / sigma
    return amplitude / (math.pi * sigma) / (1 + u**2)


def voigt(x: Tensor, params: Tensor) -> Tensor:
    """amplitude Re w(z) / (sigma sqrt(2 pi)), z = (x - center + i gamma) / (sigma sqrt(2))."""
    amplitude, center, sigma, gamma = (column(params, k) for k in range(4))
    wide = sigma * math.sqrt(2)
    re, _ = faddeeva((x - center) / wide, gamma / wide)
    return amplitude / (sigma * _ROOT_2PI) * re


def pseudo_voigt(x: Tensor, params: Tensor) -> Tensor:
    """(1 - fraction) Gaussian + fraction Lorentzian, of one full width at half height 2 sigma."""
    amplitude, center, sigma, fraction = (column(params, k) for k in range(4))
    u = (x - center) / sigma
    bell = torch.exp(-math.log(2) * u**2) * (_HALF / _ROOT_2PI)
    tails = (1 / math.pi) / (1 + u**2)
    return amplitude / sigma * ((1 - fraction) * bell + fraction * tails)


def damped_oscillator(x: Tensor, params: Tensor) -> Tensor:
    """amplitude / sqrt((1 - (x / center)^2)^2 + (2 sigma x / center)^2)."""
    amplitude, center, sigma = (column(params, k) for k in range(3))
    u = x / center
    return amplitude / torch.sqrt((1 - u**2) ** 2 + (2 * sigma * u) ** 2)


def _guess(area: float, width: float, *more: float) -> Guess:
    def guess(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
        bump = find_bump(x, y, counted)
        sigma = bump.half * width
        amplitude = bump.height * sigma * area
        rest = [sigma if m < 0 else torch.full_like(sigma, m) for m in more]
        return torch.stack([amplitude, bump.center, sigma, *rest], -1)

    return guess


def _guess_oscillator(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
    bump = find_bump(x, y, counted)
    size = torch.where(bump.center == 0, 1, bump.center).abs()
    sigma = bump.half / (math.sqrt(3) * size)
    return torch.stack([bump.height * 2 * sigma, bump.center, sigma], -1)


_NAMES = ("amplitude", "center", "sigma")
_WIDTH: dict[str, tuple[float | None, float | None]] = {"sigma": (0.0, None)}
PEAKS = {
    "gaussian": Model(gaussian, _NAMES, _guess(_ROOT_2PI, 1 / _HALF), _WIDTH, {}),
    "lorentzian": Model(lorentzian, _NAMES, _guess(math.pi, 1.0), _WIDTH, {}),
    "voigt": Model(
        voigt, (*_NAMES, "gamma"), _guess(1.22 * math.pi, 0.56, -1.0), _WIDTH, {"gamma": "sigma"}
    ),
    "pseudo_voigt": Model(
        pseudo_voigt, (*_NAMES, "fraction"), _guess(2.5, 1.0, 0.5),
        {**_WIDTH, "fraction": (0.0, 1.0)}, {},
    ),
    "damped_oscillator": Model(damped_oscillator, _NAMES, _guess_oscillator, _WIDTH, {}),
}  # fmt: skip
