"""What a loss may do inside a degenerate cluster, where no basis is better than another.

The cotangents of eigenvalues (g) and of eigenvectors (M = V^H dL/dV, in the eigenbasis) of an
invariant loss leave a trace there. For two equal eigenvalues the usual term M_ij / (l_j - l_i) is
0 / 0, and its limit depends on what the loss is:

- the values alone, or a projector on the whole cluster: the term is zero;
- a function f(A), put together as V f(l) V^H: then g_i = f' G_ii and M_ij = 2 f G_ij with the
  same G, so that g_i = r M_ii for every i of the cluster, and the term is r M_ij.

Which of them it is can be read off the diagonal unless the basis happens to make it constant.
`turn` therefore gives a basis of equal eigenvalues a fixed oblique position before a loss sees it.
Anything else has no gradient; see `resolve`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from kernels.arguments import Array
from kernels.residual import probe_vector

Tensor = torch.Tensor


class Resolved(NamedTuple):
    """What `resolve` says of each pair of eigenvalues."""

    use: Tensor  # (..., n, n) bool: take M_ij / (l_j - l_i)
    extra: Tensor  # (..., n, n) Hermitian, to be added in the eigenbasis
    special: Tensor  # (...) bool: a cluster was decided by its limit, which has no derivative


def adjoint(x: Tensor) -> Tensor:
    """x^H, conjugated at once: in an operator called from a compiled graph the lazy bit of `mH`
    is ignored by additions (torch 2.13, backend aot_eager)."""
    return x.mT.conj_physical() if x.is_complex() else x.mT


def tight(dtype: torch.dtype, n: int) -> float:
    """Gaps up to this times max|l| are rounding: no basis is meant."""
    return 16 * n * torch.finfo(dtype).eps


def loose(dtype: torch.dtype) -> float:
    """Up to this a limit is at least as accurate as a difference over a gap: sqrt(eps)."""
    return math.sqrt(torch.finfo(dtype).eps)


def same_cluster(values: Tensor, tolerance: float) -> Tensor:
    """(..., n, n) bool: joined by a chain of gaps of at most tolerance times max|l|."""
    norm = values.abs().amax(-1, keepdim=True)
    steps = (values.diff(dim=-1) > tolerance * norm).cumsum(-1)
    label = torch.nn.functional.pad(steps, (1, 0))
    return label[..., :, None] == label[..., None, :]


def _off_diagonal(same: Tensor) -> Tensor:
    return same & ~torch.eye(same.shape[-1], dtype=torch.bool, device=same.device)


def _any(same: Tensor, flag: Tensor) -> Tensor:
    """For each i whether `flag` holds anywhere in its cluster."""
    return (same & flag[..., None, :]).any(-1)


def _peak(same: Tensor, x: Tensor) -> Tensor:
    """For each i the largest x of its cluster."""
    return torch.where(same, x[..., None, :], 0).amax(-1)


def _decide(
    values: Tensor, g: Tensor, m: Tensor, same: Tensor, scale: Tensor, noise: float
) -> tuple[Tensor, Tensor, Tensor]:
    """For each i: whether its cluster's limit is known, and whether vectors count in it; and the
    extra term. What is left of an invariant loss is at most `noise` times its scale."""
    pairs = _off_diagonal(same)
    even, odd = (m + adjoint(m)) / 2, (m - adjoint(m)) / 2
    diagonal = even.diagonal(dim1=-2, dim2=-1).real
    square = torch.where(same, (diagonal * diagonal)[..., None, :], 0).sum(-1)
    product = torch.where(same, (diagonal * g)[..., None, :], 0).sum(-1)
    ratio = product / torch.where(square > 0, square, 1)
    term = torch.where(pairs, ratio[..., None] * even, 0)
    left = odd - term * (values[..., None, :] - values[..., :, None])

    def is_small(x: Tensor, limit: Tensor) -> Tensor:
        return ~_any(same, (torch.where(pairs, x.abs(), 0) > limit).any(-1))

    limit = noise * scale[..., None, None]
    floor = 100 * torch.finfo(g.dtype).eps * g.abs().amax(-1, keepdim=True)
    slack = 100 * loose(g.dtype) * _peak(same, g.abs()) + floor
    fits = ~_any(same, (g - ratio * diagonal).abs() > slack)
    fits &= is_small(left, limit + 0.01 * (odd - left).abs())
    mean = torch.where(same, g[..., None, :], 0).sum(-1) / same.sum(-1)
    equal = ~_any(same, (g - mean).abs() > slack)
    unused = (m == 0).all(-1).all(-1)[..., None]  # the loss looks at values alone
    known = fits | ((equal | unused) & is_small(odd, limit))
    mixed = known & ~is_small(even, limit)
    return known, torch.where(fits[..., None], term, 0), mixed


def resolve(values: Tensor, g: Tensor, m: Tensor, width: float) -> Resolved:
    """Decide every pair of eigenvalues; refuse a loss that depends on what is arbitrary.

    Clusters are sought twice: by sqrt(eps), where the limit is as good as the quotient, and, if a
    loss does tell such vectors apart, by 16 n eps, where it must not.

    Raises
    ------
    ValueError
        The loss depends on phases of complex vectors, or on the basis of a degenerate cluster.
    """
    n, tolerance = values.shape[-1], 10 * loose(values.dtype)
    scale = m.abs().amax((-1, -2)) + values.abs().amax(-1) * g.abs().amax(-1)
    use = _off_diagonal(torch.ones_like(m, dtype=torch.bool))
    extra, special = torch.zeros_like(m), torch.zeros_like(scale, dtype=torch.bool)
    if m.is_complex():
        turned = m.diagonal(dim1=-2, dim2=-1).imag.abs().amax(-1)
        _refuse(turned > tolerance * scale, _PHASE)
    close = values.diff(dim=-1) <= loose(values.dtype) * values.abs().amax(-1, keepdim=True)
    if width >= 0 or not bool(close.any()):
        return Resolved(use, extra, special)
    near = same_cluster(values, loose(values.dtype))
    noise = 100 * n * torch.finfo(values.dtype).eps
    known, extra, mixed = _decide(values, g, m, near, scale, noise)
    use = use & ~(near & known[..., None])
    if not bool(known.all()):
        equal = same_cluster(values, tight(values.dtype, n)) & ~known[..., None]
        settled, more, also = _decide(values, g, m, equal, scale, tolerance)
        alone = equal.sum(-1) == 1
        _refuse((~known & ~alone & ~settled).any(-1), _BASIS)
        use = use & ~equal
        extra = extra + torch.where(known[..., None], 0, more)
        mixed = mixed | (also & ~known & ~alone)
    return Resolved(use, extra, mixed.any(-1))


_PHASE = (
    "the loss depends on the phases of complex eigenvectors, which are arbitrary: it has no "
    "gradient. Use moduli, projectors or functions of the matrix, or pass the vectors through "
    "kernels.fix_gauge first"
)
_BASIS = (
    "the loss depends on the basis of a degenerate cluster of eigenvectors, which is arbitrary: "
    "it has no gradient. Use sums of eigenvalues, projectors on whole clusters, or kernels.expm, "
    "logm, sqrtm or matrix_power for functions of the matrix; or pass degenerate='broaden' to "
    "eigh for a broadened gradient"
)
SECOND = (
    "a second derivative was asked at a degenerate cluster of eigenvalues that the loss reaches "
    "through eigenvectors; it is not determined there. kernels.expm, logm, sqrtm and matrix_power "
    "have one"
)


def _refuse(where: Tensor, reason: str) -> None:
    if bool(where.any()):
        index = tuple(where.nonzero()[0].tolist())
        raise ValueError(f"kernels.eigh, gradient, matrix {index} of the batch: {reason}")


def refuse_second(where: Tensor) -> None:
    """Raise where a derivative of a limit is asked."""
    _refuse(where, SECOND)


def turn(values: Array, vectors: Array) -> list[int]:
    """Give each basis of equal eigenvalues (up to 4 n eps max|l|) a fixed oblique position.

    The basis V_c found becomes V_c (1 - 2 u u^T / u^T u), u the probe vector of the cluster's
    size. Returns the matrices that were changed; their residuals must be measured again.
    """
    n = values.shape[-1]
    norm = np.maximum(values[:, -1:], -values[:, :1])
    eps = 2.0**-23 if values.itemsize == 4 else 2.0**-52
    close = values[:, 1:] - values[:, :-1] <= 4 * n * eps * norm
    if not close.any():
        return []
    rows: list[int] = np.flatnonzero(close.any(-1)).tolist()
    for row in rows:
        start = 0
        for stop in [*(np.flatnonzero(~close[row]) + 1).tolist(), n]:
            if stop - start > 1:
                u = probe_vector(stop - start, False)[0]
                part = vectors[row, :, start:stop]
                weight = (part * u).sum(-1, keepdims=True) * (2 / (u * u).sum())
                vectors[row, :, start:stop] = part - weight * u
            start = stop
    return rows
