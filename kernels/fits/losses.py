"""Robust losses, as scipy.optimize.least_squares defines them.

With z = (r / scale)^2 the sum of scale^2 rho(z) is minimised: rho(z) = z (linear),
2 (sqrt(1 + z) - 1) (soft_l1), ln(1 + z) (cauchy). Residuals and derivatives are scaled so that the
normal equations hold its gradient and its Hessian without the curvature of the model (B. Triggs et
al., Bundle adjustment, 1999, 4.3; scipy's `scale_for_robust_loss_function`).
"""

from __future__ import annotations

import torch

Tensor = torch.Tensor
LOSSES = ("linear", "soft_l1", "cauchy")
_SMALLEST = torch.finfo(torch.float64).eps


def weigh(residual: Tensor, loss: str, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each point, and the factors of residual and derivatives.

    Parameters
    ----------
    residual : (rows, points), in units of sigma
    """
    z = (residual / scale) ** 2
    if loss == "soft_l1":
        root = torch.sqrt(1 + z)
        rho, first, second = 2 * z / (1 + root), 1 / root, -0.5 / (root * root * root)
    else:
        first = 1 / (1 + z)
        rho, second = torch.log1p(z), -first * first
    slope = torch.sqrt((first + 2 * second * z).clamp(min=_SMALLEST))
    return scale * scale * rho, first / slope, slope
