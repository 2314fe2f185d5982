"""Derivatives of the eigendecomposition, in both directions, at degenerate eigenvalues too.

With F_ij = 1 / (l_j - l_i), F_ii = 0 (M. Giles, Collected matrix derivative results, 2008):

    backward   dL/dA = V (diag(g) + F o (M - M^H) / 2) V^H,    M = V^H dL/dV
    forward    dl = Re diag(T),  dV = V (F o T),               T = V^H (E + E^H) / 2 V

Written in torch operations, so that they can be differentiated again. What happens at equal
eigenvalues is decided in `degenerate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from kernels import degenerate

Tensor = torch.Tensor
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_wrapped(a: Tensor) -> bool:
    """Whether `a` is not just data: a transform or a mode stands between it and its numbers."""
    return (
        type(a) not in _PLAIN
        or torch._C._functorch.is_functorch_wrapped_tensor(a)
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack() > 0
    )


def hermitian_part(x: Tensor) -> Tensor:
    return (x + degenerate.adjoint(x)) / 2


def backward(
    values: Tensor, vectors: Tensor, g: Tensor | None, gv: Tensor | None, width: float
) -> Tensor:
    """dL/dA, Hermitian, from the cotangents of values and vectors (None: zero).

    A matrix without an answer (NaN) gets zero where its cotangents are zero, NaN where not.

    Parameters
    ----------
    width : float
        Negative: the exact gradient, refused where there is none. Else F is broadened to
        d / (d^2 + (width max|l|)^2), d = l_j - l_i.
    """
    bad = values.isnan().any(-1)
    if not is_compiling() and not is_wrapped(values) and not bool(bad.any()):
        return _backward(values, vectors, g, gv, width)
    counted = is_nonzero(g, values) | is_nonzero(gv, values)
    whole = torch.where(bad[..., None], 0, values)
    v = torch.where(bad[..., None, None], 0, vectors)
    g = None if g is None else torch.where(bad[..., None], 0, g)
    gv = None if gv is None else torch.where(bad[..., None, None], 0, gv)
    out = _backward(whole, v, g, gv, width)
    return out + torch.where(bad & counted, torch.nan, 0.0)[..., None, None]


def _backward(
    values: Tensor, v: Tensor, g: Tensor | None, gv: Tensor | None, width: float
) -> Tensor:
    if gv is None:
        g = torch.zeros_like(values) if g is None else g
        return hermitian_part((v * g[..., None, :]) @ v.mH)
    g = torch.zeros_like(values) if g is None else g
    m = v.mH @ gv
    with torch.no_grad():
        use, extra, special = torch.ops.eigenstream.resolve(values, g, m, width)
    if torch.is_grad_enabled():
        v = v + _guard(v, special)
    x = _over_gaps(values, use, width) * (m - m.mH) / 2 + extra
    return hermitian_part(v @ (x + torch.diag_embed(g)) @ v.mH)


def forward(
    values: Tensor, vectors: Tensor, tangent: Tensor, width: float
) -> tuple[Tensor, Tensor]:
    """Tangents of values and vectors.

    Vectors of eigenvalues that are equal up to rounding keep their span and do not turn in it.
    """
    t = vectors.mH @ hermitian_part(tangent) @ vectors
    limit = degenerate.tight(values.dtype, values.shape[-1])
    apart = ~degenerate.same_cluster(values, limit if width < 0 else -1.0)
    turned = vectors @ (_over_gaps(values, apart, width) * t)
    return t.diagonal(dim1=-2, dim2=-1).real, turned


def _over_gaps(values: Tensor, use: Tensor, width: float) -> Tensor:
    gap = values[..., None, :] - values[..., :, None]
    if width >= 0:
        norm = values.detach().abs().amax(-1)[..., None, None]
        square = gap * gap + (width * norm) ** 2
        return torch.where(square > 0, gap / torch.where(square > 0, square, 1), 0)
    return torch.where(use, 1 / torch.where(use, gap, 1), 0)


def is_nonzero(x: Tensor | None, values: Tensor) -> Tensor:
    """For each matrix whether anything flows in."""
    if x is None:
        return torch.zeros_like(values[..., 0], dtype=torch.bool)
    flags = x != 0
    while flags.ndim >= values.ndim:
        flags = flags.any(-1)
    return flags


def _guard(x: Tensor, special: Tensor) -> Tensor:
    """Zeros whose derivative does not exist where `special`: an error backward, NaN forward."""
    if torch.compiler.is_compiling():
        zeros: Tensor = torch.ops.eigenstream.guard(x, special)
        return zeros
    return _Guard.apply(x, special)  # type: ignore[no-any-return,no-untyped-call]  # torch's


def _reached(x: Tensor, special: Tensor) -> Tensor:
    return special & (x != 0).any(-1).any(-1)


def _keep_special(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.save_for_forward(inputs[1])


def _refuse_backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
    (special,) = ctx.saved_tensors
    return torch.ops.eigenstream.refuse_second(cotangent, special), None


class _Guard(torch.autograd.Function):
    """In eager mode: a custom operator would have a silent zero for a tangent."""

    setup_context = staticmethod(_keep_special)
    backward = staticmethod(_refuse_backward)

    @staticmethod
    def forward(x: Tensor, special: Tensor) -> Tensor:
        return torch.zeros_like(x)

    @staticmethod
    def jvp(ctx: Any, x: Tensor, special: None) -> Tensor:
        (special_,) = ctx.saved_tensors
        where = _reached(x, special_)[..., None, None]
        return torch.where(where, torch.nan, torch.zeros_like(x))

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, special: Tensor) -> tuple[Tensor, int]:
        x, special = to_front(info, in_dims, x, special)
        return _Guard.apply(x, special), 0  # type: ignore[no-untyped-call]  # torch's


def to_front(info: Any, in_dims: Any, *args: Any) -> list[Any]:
    """Arguments of a batching rule with every tensor's new dimension in front."""
    out = []
    for arg, dim in zip(args, in_dims, strict=True):
        if not isinstance(arg, Tensor):
            out.append(arg)
        elif dim is None:
            out.append(arg.expand(info.batch_size, *arg.shape))
        else:
            out.append(arg.movedim(dim, 0))
    return out


def define(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Make the operator eigenstream::name; leading dimensions are its batch, also vmap's."""
    op = torch.library.custom_op(f"eigenstream::{name}", run, mutates_args=(), schema=schema)
    op.register_fake(fake)

    def batch(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        out = op(*to_front(info, in_dims, *args))
        return out, tuple(0 for _ in out) if isinstance(out, tuple) else 0

    op.register_vmap(batch)
    return op


def _fake_resolve(values: Tensor, g: Tensor, m: Tensor, width: float) -> tuple[Tensor, ...]:
    use = torch.empty_like(m, dtype=torch.bool, memory_format=torch.contiguous_format)
    extra = torch.empty_like(m, memory_format=torch.contiguous_format)
    return use, extra, m.new_empty(m.shape[:-2], dtype=torch.bool)


def _resolve(values: Tensor, g: Tensor, m: Tensor, width: float) -> tuple[Tensor, ...]:
    found = degenerate.resolve(values, g, m, width)
    return tuple(x.contiguous() for x in found)


def _refuse(x: Tensor, special: Tensor) -> Tensor:
    degenerate.refuse_second(_reached(x, special))
    return _zeros(x, special)


def _same(x: Tensor, special: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _zeros(x: Tensor, special: Tensor) -> Tensor:
    return torch.zeros_like(x, memory_format=torch.contiguous_format)


define(
    "resolve",
    "(Tensor values, Tensor g, Tensor m, float width) -> (Tensor, Tensor, Tensor)",
    _resolve,
    _fake_resolve,
)
define("refuse_second", "(Tensor x, Tensor special) -> Tensor", _refuse, _same)
define("guard", "(Tensor x, Tensor special) -> Tensor", _zeros, _same).register_autograd(
    _refuse_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1])
)
