"""Names of models, and sums of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence

import torch

from kernels.models.curves import BACKGROUNDS, CURVES
from kernels.models.parts import Guess, Model, Tensor, level
from kernels.models.peaks import PEAKS

_ALL: dict[str, Model] = {**PEAKS, **CURVES}
NAMES = tuple(_ALL)


@functools.cache
def find(name: str) -> Model:
    """The model of a name, or of a sum of names.

    Raises
    ------
    ValueError
        For a name that there is not.
    """
    parts = [part.strip() for part in name.split("+")]
    for part in parts:
        if part not in _ALL:
            raise ValueError(
                f"model: got {part!r} in {name!r}, expected one of {', '.join(NAMES)}, a sum of "
                "several with +, or a function f(x, params)"
            )
    if len(parts) == 1:
        return _ALL[parts[0]]
    return _add([_ALL[part] for part in parts], _label(parts), parts)


def _label(parts: Sequence[str]) -> list[str]:
    """Each part's own name in a sum: with a number if it is there more than once."""
    seen: dict[str, int] = {}
    out = []
    for part in parts:
        seen[part] = seen.get(part, 0) + 1
        out.append(f"{part}{seen[part]}" if parts.count(part) > 1 else part)
    return out


def _add(models: Sequence[Model], labels: Sequence[str], parts: Sequence[str]) -> Model:
    ends = [0, *itertools.accumulate(len(m.names) for m in models)]
    functions = [m.function for m in models]

    def total(x: Tensor, params: Tensor) -> Tensor:
        pieces = [params[..., a:b] for a, b in itertools.pairwise(ends)]
        values = [f(x, piece) for f, piece in zip(functions, pieces, strict=True)]
        return functools.reduce(torch.add, values)

    def rename(given: Mapping[str, object], label: str) -> dict[str, object]:
        return {f"{label}_{k}": v for k, v in given.items()}

    bounds = {
        k: v for m, n in zip(models, labels, strict=True) for k, v in rename(m.bounds, n).items()
    }
    tied = {
        f"{n}_{k}": f"{n}_{v}"
        for m, n in zip(models, labels, strict=True)
        for k, v in m.tied.items()
    }
    names = tuple(f"{n}_{k}" for m, n in zip(models, labels, strict=True) for k in m.names)
    return Model(total, names, _guess_in_turn(models, parts), bounds, tied)  # type: ignore[arg-type]  # bounds are values, passed through


def _guess_in_turn(models: Sequence[Model], parts: Sequence[str]) -> Guess:
    """Backgrounds first, at the level that a fifth of the points lies below, or above if the curve
    has dips; then each part from what the parts before it leave."""

    def guess(x: Tensor, y: Tensor, counted: Tensor) -> Tensor:
        found: dict[int, Tensor] = {}
        rest = y
        order = sorted(range(len(parts)), key=lambda k: parts[k] not in BACKGROUNDS)
        for k in order:
            if parts[k] in BACKGROUNDS:
                found[k] = _flat(models[k], rest, counted)
            else:
                found[k] = models[k].guess(x, rest, counted)
            rest = torch.where(counted, rest - models[k].function(x, found[k]), 0)
        return torch.cat([found[k] for k in range(len(parts))], -1)

    return guess


def _flat(model: Model, y: Tensor, counted: Tensor) -> Tensor:
    low, middle, high = (level(y, counted, share) for share in (0.2, 0.5, 0.8))
    base = torch.where(high - middle >= middle - low, low, high)
    at = next(k for k, n in enumerate(model.names) if n in ("c", "c0", "intercept"))
    zero = torch.zeros_like(base)
    return torch.stack([base if k == at else zero for k in range(len(model.names))], -1)
