"""What is to be fitted, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernels import models
from kernels.fits import losses
from kernels.fits.jacobian import Model
from kernels.fits.rows import Rows, as_tensor, broadcast
from kernels.models import Guess

Tensor = torch.Tensor


@dataclass(frozen=True)
class Problem:
    """A stack of curves and the model for them. Computed in double precision."""

    model: Model
    names: tuple[str, ...]
    x: tuple[Rows, ...]
    several: bool  # whether the model takes a tuple of x
    y: Rows
    sigma: Rows | None
    mask: Rows | None
    start: Rows | None
    guess: Guess | None
    free: tuple[int, ...]  # indices of the parameters that are looked for
    source: tuple[int, ...]  # for each parameter, whose value it has
    values: dict[int, float]  # of fixed parameters
    lower: Tensor  # (free,)
    upper: Tensor
    loss: str
    scale: float
    batch: tuple[int, ...]
    points: int
    dtype: torch.dtype  # of y, in double precision
    single: bool  # whether the answer is in single precision
    device: torch.device
    numpy: bool
    factors: Tensor | None = None  # (p,) of the start, for another one

    @property
    def count(self) -> int:
        return math.prod(self.batch)

    @property
    def p(self) -> int:
        return len(self.names)


def pose(
    model: Any, x: Any, y: Any, start: Any, *, sigma: Any, mask: Any, bounds: Any, fixed: Any,
    tied: Any, loss: str, scale: float, names: Any,
) -> Problem:  # fmt: skip
    """Check what `kernels.fit` was given.

    Raises
    ------
    ValueError
        For what makes no sense.
    """
    data = as_tensor(y, "fit: y")
    if data.ndim == 0 or data.shape[-1] == 0:
        raise ValueError(f"fit: y: got shape {tuple(data.shape)}, expected (batch..., points)")
    *batch, points = data.shape
    form = data.shape[:-1], points, data.device
    found = models.find(model) if isinstance(model, str) else None
    if found is None and not callable(model):
        raise ValueError(f"fit: model: got {model!r}, expected a name or a function f(x, params)")
    first = None if start is None else as_tensor(start, "fit: start", data.device)
    names = _name(found, first, names)
    taken = {n: k for k, n in enumerate(names)}
    values = _read_fixed(fixed, taken)
    source = _read_tied(tied if tied is not None or found is None else found.tied, taken)
    free = tuple(k for k in range(len(names)) if source[k] == k and k not in values)
    if not free:
        raise ValueError("fit: fixed: got all parameters, expected at least one that is free")
    lower, upper = _read_bounds(bounds, found, taken)
    if loss not in losses.LOSSES:
        raise ValueError(f"fit: loss: got {loss!r}, expected one of {', '.join(losses.LOSSES)}")
    if not 0 < scale < math.inf:
        raise ValueError(f"fit: loss_scale: got {scale!r}, expected a number > 0")
    several = isinstance(x, tuple)
    variables = x if several else (x,)
    if not variables:
        raise ValueError("fit: x: got an empty tuple, expected one array, or several")
    if any(v.is_complex() for v in map(as_tensor, variables, ["fit: x"] * len(variables))):
        raise ValueError("fit: x: got complex numbers, expected real ones; hand over two variables")
    return Problem(
        model=found.function if found else model,
        names=names,
        x=tuple(broadcast(v, "fit: x", *form) for v in variables),
        several=several,
        y=broadcast(data, "fit: y", *form),
        sigma=None if sigma is None else broadcast(sigma, "fit: sigma", *form),
        mask=None if mask is None else broadcast(_check_mask(mask), "fit: mask", *form),
        start=None if first is None else broadcast(first, "fit: start", batch, len(names),
                                                   data.device),
        guess=found.guess if found else None,
        free=free,
        source=source,
        values=values,
        lower=lower[list(free)],
        upper=upper[list(free)],
        loss=loss,
        scale=float(scale),
        batch=tuple(batch),
        points=points,
        dtype=torch.complex128 if data.is_complex() else torch.float64,
        single=data.dtype in (torch.float32, torch.complex64, torch.float16, torch.bfloat16),
        device=data.device,
        numpy=not isinstance(y, torch.Tensor),
    )  # fmt: skip


def _check_mask(mask: Any) -> Tensor:
    found = as_tensor(mask, "fit: mask")
    if found.dtype is not torch.bool:
        raise ValueError(f"fit: mask: got dtype {found.dtype}, expected bool: true for what counts")
    return found


def _name(found: Any, start: Tensor | None, names: Any) -> tuple[str, ...]:
    """Names of the parameters; how many there are."""
    if found is not None:
        if names is not None and tuple(names) != found.names:
            raise ValueError(f"fit: names: got {names!r}, expected none: the model has its own")
        names = found.names
    elif start is None:
        raise ValueError("fit: start: got None, expected values: only a named model has a guess")
    elif names is None:
        names = [f"p{k}" for k in range(start.shape[-1] if start.ndim else 1)]
    names = tuple(str(n) for n in names)
    if start is not None and (start.ndim == 0 or start.shape[-1] != len(names)):
        raise ValueError(
            f"fit: start: got shape {tuple(start.shape)}, expected ({len(names)},) or (batch..., "
            f"{len(names)}) for {', '.join(names)}"
        )
    if start is not None and start.is_complex():
        raise ValueError("fit: start: got complex numbers, expected real parameters; give real and "
                         "imaginary parts as two")  # fmt: skip
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"fit: names: got {names!r}, expected names that differ")
    return tuple(names)


def index_of(key: Any, taken: Mapping[str, int], what: str) -> int:
    """The index of a parameter given by name or index."""
    if isinstance(key, str) and key in taken:
        return taken[key]
    if isinstance(key, (int, np.integer)) and -len(taken) <= key < len(taken):
        return int(key) % len(taken)
    raise ValueError(
        f"fit: {what}: got {key!r}, expected one of {', '.join(taken)}, or an index below "
        f"{len(taken)}"
    )


def _read_fixed(fixed: Any, taken: Mapping[str, int]) -> dict[int, float]:
    """Indices of fixed parameters, and their values; NaN for that of the start."""
    if isinstance(fixed, Mapping):
        return {index_of(k, taken, "fixed"): float(v) for k, v in fixed.items()}
    keys = [fixed] if isinstance(fixed, str) else list(fixed)
    return {index_of(k, taken, "fixed"): math.nan for k in keys}


def _read_tied(tied: Any, taken: Mapping[str, int]) -> tuple[int, ...]:
    source = list(range(len(taken)))
    for key, to in (tied or {}).items():
        source[index_of(key, taken, "tied")] = index_of(to, taken, "tied")
    if any(source[s] != s for s in source):
        raise ValueError(f"fit: tied: got {tied!r}, expected no chain: tie both to the same one")
    return tuple(source)


def _read_bounds(bounds: Any, found: Any, taken: Mapping[str, int]) -> tuple[Tensor, Tensor]:
    """Lower and upper limit of each parameter."""
    p = len(taken)
    lower = torch.full((p,), -torch.inf, dtype=torch.float64)
    upper = -lower
    given = bounds if bounds is not None or found is None else found.bounds
    if isinstance(given, Mapping):
        if found is not None:
            given = {**found.bounds, **given}
        for key, (low, high) in given.items():
            k = index_of(key, taken, "bounds")
            lower[k] = -torch.inf if low is None else float(low)
            upper[k] = torch.inf if high is None else float(high)
    elif given is not None:
        low, high = (as_tensor(b, "fit: bounds").to(torch.float64) for b in given)
        try:
            lower, upper = low.expand(p).clone(), high.expand(p).clone()
        except RuntimeError:
            raise ValueError(
                f"fit: bounds: got shapes {tuple(low.shape)} and {tuple(high.shape)}, expected "
                f"(lower, upper) that broadcast to ({p},), or a mapping of names to pairs"
            ) from None
    if not bool((lower < upper).all()):
        raise ValueError(
            f"fit: bounds: got {lower.tolist()} and {upper.tolist()}, expected lower < upper; to "
            "hold a parameter, use fixed"
        )
    return lower, upper
