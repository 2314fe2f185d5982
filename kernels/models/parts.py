"""What a model is, and what guesses of its parameters are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

Tensor = torch.Tensor
Guess = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x, y, counted), each (rows, points) -> (rows, p). Each row by itself; y is 0 where not counted,
x some value that is."""


class Model(NamedTuple):
    """A model with a name.

    Attributes
    ----------
    function : f(x, params) with x (rows, points), params (rows, p)
    names : of the parameters
    guess : of their values
    bounds : lower and upper, where there are any
    tied : parameters that have the value of another one unless the user says otherwise
    """

    function: Callable[[Tensor, Tensor], Tensor]
    names: tuple[str, ...]
    guess: Guess
    bounds: Mapping[str, tuple[float | None, float | None]]
    tied: Mapping[str, str]


def column(params: Tensor, k: int) -> Tensor:
    """Parameter k, (rows, 1)."""
    return params[..., k : k + 1]


def span(x: Tensor) -> Tensor:
    """The range of x, (rows,); 1 where there is none."""
    width = x.amax(-1) - x.amin(-1)
    return torch.where(width > 0, width, 1)


def extreme(y: Tensor, counted: Tensor, sign: float) -> Tensor:
    """The largest (sign 1) or smallest (-1) y that counts."""
    return sign * torch.where(counted, sign * y, -torch.inf).amax(-1)


def level(y: Tensor, counted: Tensor, share: float) -> Tensor:
    """The y below which a share of the points lies."""
    ordered = torch.where(counted, y, torch.inf).sort(-1).values
    at = ((counted.sum(-1) - 1).clamp(min=0) * share).to(torch.int64)
    return ordered.gather(-1, at[..., None]).squeeze(-1)


class Bump(NamedTuple):
    """A peak as the eye sees it: each (rows,)."""

    height: Tensor
    center: Tensor
    half: Tensor  # half of the width at half height


def find_bump(x: Tensor, y: Tensor, counted: Tensor, floor: Tensor | None = None) -> Bump:
    """The highest peak or the deepest dip above the floor (the end of the values it is not at).

    As lmfit's `guess_from_peak`: the points beyond half height give width and centre.
    """
    top, bottom = extreme(y, counted, 1.0), extreme(y, counted, -1.0)
    middle = level(y, counted, 0.5) if floor is None else floor
    up = top - middle >= middle - bottom
    height = torch.where(up, top, bottom) - torch.where(up, bottom, top)
    if floor is not None:
        height = torch.where(up, top, bottom) - floor
    base = torch.where(up, top, bottom) - height
    share = (y - base[..., None]) / torch.where(height == 0, 1, height)[..., None]
    beyond = counted & (share > 0.5)
    peak = beyond & (share >= 1)
    high = torch.where(beyond, x, -torch.inf).amax(-1)
    low = torch.where(beyond, x, torch.inf).amin(-1)
    weight = torch.where(beyond, share, 0)
    center = (weight * x).sum(-1) / weight.sum(-1)
    wide = span(x)
    half = torch.where(high > low, (high - low) / 2, wide / 12)
    far = half > wide / 4  # several peaks, or noise: the highest point alone
    at = torch.where(peak, x, -torch.inf).amax(-1)
    center = torch.where(far | ~center.isfinite(), at, center)
    return Bump(height, center, torch.where(far, wide / 12, half))
