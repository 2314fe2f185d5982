"""Whether torch.compile changes the bits of an optimizer's step; `doctor` asks."""

from __future__ import annotations

import torch

from kernels.fits.descent import OPTIMIZERS, Steps, make_optimizer

Tensor = torch.Tensor


def compare_compiled(
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS), count: int = 8, *, fused: bool = True
) -> dict[str, str]:
    """Some steps of each optimizer on float64, compiled and eager.

    Fused, both are one call of the same kernel, and equal. Not fused, the compiled Adam corrects
    its bias by a float32 step, and is off by 7e-6.

    Returns
    -------
    name -> `equal`, `different by X`, or why it could not be compiled
    """
    return {name: _compare(name, count, fused) for name in optimizers}


def _compare(name: str, count: int, fused: bool) -> str:
    eager = _run(name, count, fused, False)
    try:
        compiled = _run(name, count, fused, True)
    except Exception as error:  # no compiler, an unknown platform: a finding, not a failure
        return f"not compiled: {type(error).__name__}: {str(error).splitlines()[0]}"
    if torch.equal(eager, compiled):
        return "equal"
    return f"different by {float((eager - compiled).abs().max()):.1e}"


def _run(name: str, count: int, fused: bool, compiled: bool) -> Tensor:
    """Descend along a fixed valley."""
    params = torch.linspace(-2, 2, 4 * 64, dtype=torch.float64).reshape(4, 64).requires_grad_()
    weight = torch.linspace(0.1, 3, 4, dtype=torch.float64)[:, None]
    optimizer = make_optimizer(Steps(name, count, 0.05, "constant", fused), params)
    step = torch.compile(optimizer.step) if compiled else optimizer.step
    for _ in range(count):
        params.grad = 2 * weight * params.detach() * (1 + params.detach() ** 2)
        step()
    return params.detach()
