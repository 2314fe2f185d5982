"""Functions of Hermitian matrices, f(A) = V f(l) V^H, with exact derivatives.

The derivative in the direction E is V (D o V^H E V) V^H with the divided differences
D_ij = f[l_i, l_j] (Daleckii, Krein): no gap is divided by, so it is right at equal eigenvalues.
The second is V (sum over k of f[l_i, l_k, l_j] (E_ik G_kj + G_ik E_kj)) V^H.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels import batch, degenerate
from kernels.answer import Choices
from kernels.arguments import Hermitian, as_matrices
from kernels.divided import Scalar
from kernels.gradients import define, hermitian_part, is_nonzero, is_wrapped, to_front
from kernels.operators import is_followed, refuse_forward_twice

Tensor = torch.Tensor


def matrix_power(
    a: Any, p: float, eps: float | None = None, *, hermitian: Hermitian = "lower"
) -> Any:
    """A^p for every matrix of a stack, p any real number.

    Parameters
    ----------
    a : (..., n, n) numpy.ndarray or torch.Tensor
        Hermitian; `hermitian` as for `eigh`.
    p : float
        Whole powers take any matrix, negative ones any that is not singular; others need one that
        is positive semidefinite (p > 0) or definite (p < 0).
    eps : float, optional
        Every eigenvalue below eps max|l| is replaced by eps max|l|, negative ones too. Without it
        10 n eps(dtype) max|l| counts as zero, and a matrix outside the domain gives NaN.

    Returns
    -------
    (..., n, n) of the same kind, exactly Hermitian up to rounding. A matrix that has no answer is
    NaN and touches no other.

    Raises
    ------
    ValueError
        For arguments that make no sense.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not abs(p) < float("inf"):
        raise ValueError(f"matrix_power: got p = {p!r}, expected a finite number")
    return _apply(a, Scalar("power", float(p)), eps, hermitian)


def expm(a: Any, *, hermitian: Hermitian = "lower") -> Any:
    """The exponential of every matrix of a stack; see `matrix_power`."""
    return _apply(a, Scalar("exp", 0.0), None, hermitian)


def logm(a: Any, eps: float | None = None, *, hermitian: Hermitian = "lower") -> Any:
    """The logarithm of positive definite matrices; `eps` as in `matrix_power`."""
    return _apply(a, Scalar("log", 0.0), eps, hermitian)


def sqrtm(a: Any, eps: float | None = None, *, hermitian: Hermitian = "lower") -> Any:
    """The square root of positive semidefinite matrices: `matrix_power(a, 0.5, eps)`."""
    return _apply(a, Scalar("power", 0.5), eps, hermitian)


def _apply(a: Any, scalar: Scalar, eps: float | None, hermitian: Hermitian) -> Any:
    if eps is not None and not 0 <= eps < 1:
        raise ValueError(f"eps: got {eps!r}, expected 0 <= eps < 1, or None")
    options = hermitian, *scalar, eps
    if isinstance(a, torch.Tensor) and is_followed(a):
        if torch.compiler.is_compiling():
            return torch.ops.eigenstream.matrix_function(a, *options)[0]
        return _Apply.apply(a, *options)[0]  # type: ignore[no-untyped-call]  # torch's
    if isinstance(a, torch.Tensor):
        return _run(a, *options)[0]
    stack = as_matrices(a, "kernels")
    whole = stack.take(0, stack.count).reshape(stack.array.shape)
    return _run(torch.from_numpy(whole.copy()), *options)[0].numpy()


def _run(
    a: Tensor, hermitian: Hermitian, name: str, p: float, eps: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """f(A) and the eigenvalues and vectors it was made of."""
    found = batch.solve(a.detach(), Choices(hermitian))
    scalar, v = Scalar(name, p), found.vectors
    with torch.no_grad():
        f = scalar.apply(_domain(found.values, scalar, eps)[0])
        f = torch.where(torch.isfinite(f).all(-1, keepdim=True), f, torch.nan)
        out = hermitian_part((v * f[..., None, :]) @ degenerate.adjoint(v))
    return out, found.values, v


def _domain(values: Tensor, scalar: Scalar, eps: float | None) -> tuple[Tensor, Tensor]:
    """Eigenvalues as f takes them, all NaN for a matrix outside its domain; which were clamped."""
    none = torch.zeros_like(values, dtype=torch.bool)
    if scalar.name == "exp" or (eps is None and scalar.whole and scalar.p >= 0):
        return values, none
    norm = values.abs().amax(-1, keepdim=True)
    if eps is not None:
        return torch.maximum(values, eps * norm), values < eps * norm
    zero = 10 * values.shape[-1] * torch.finfo(values.dtype).eps * norm
    size = values.abs() if scalar.whole else values
    outside = size <= zero if scalar.positive else size < -zero
    kept = values if scalar.positive else values.clamp(min=0)
    return torch.where(outside.any(-1, keepdim=True), torch.nan, kept), none


def _frechet(
    values: Tensor,
    vectors: Tensor,
    g: Tensor,
    name: str,
    p: float,
    eps: float | None,
    adjoint: bool,
) -> Tensor:
    """The derivative of f(A) in the direction g, or its adjoint applied to the cotangent g.

    They differ by the floor alone, which moves with the largest eigenvalue. Zero where g is zero,
    NaN where f(A) is.
    """
    scalar = Scalar(name, p)
    x, clamped = _domain(values, scalar, eps)
    bad, counted = x.isnan().any(-1), is_nonzero(g, values)
    v = torch.where(bad[..., None, None], 0, vectors)
    t = degenerate.adjoint(v) @ hermitian_part(g) @ v
    d = scalar.first(x[..., :, None], x[..., None, :])
    if eps is not None:
        d = _with_clamped(d, values, x, clamped)
    core = d * t
    if eps is not None:
        change = _move_floor(values, x, clamped, t.diagonal(dim1=-2, dim2=-1).real, scalar, adjoint)
        core = core + torch.diag_embed(eps * change).to(core.dtype)
    out = hermitian_part(v @ core @ degenerate.adjoint(v))
    out = torch.where(bad[..., None, None], torch.nan, out)
    return torch.where(counted[..., None, None], out, 0)


def _with_clamped(d: Tensor, values: Tensor, x: Tensor, clamped: Tensor) -> Tensor:
    """Divided differences of f(max(l, c)) from those of f."""
    both = clamped[..., :, None] & clamped[..., None, :]
    mixed = clamped[..., :, None] ^ clamped[..., None, :]
    gap = values[..., :, None] - values[..., None, :]
    share = (x[..., :, None] - x[..., None, :]) / torch.where(mixed, gap, 1)
    return torch.where(both, 0, torch.where(mixed, d * share, d))


def _move_floor(
    values: Tensor, x: Tensor, clamped: Tensor, t: Tensor, scalar: Scalar, adjoint: bool
) -> Tensor:
    """Change of the diagonal because the floor is eps max|l|; shared evenly if that is repeated."""
    size = values.abs()
    top = size >= size.amax(-1, keepdim=True) * (
        1 - degenerate.tight(values.dtype, values.shape[-1])
    )
    weight = top * values.sign() / top.sum(-1, keepdim=True)
    slope = torch.where(clamped, scalar.slope(x), 0)
    if adjoint:
        return weight * (slope * t).sum(-1, keepdim=True)
    return slope * (weight * t).sum(-1, keepdim=True)


def _second(
    values: Tensor, vectors: Tensor, g: Tensor, h: Tensor, name: str, p: float, eps: float | None
) -> Tensor:
    """The second derivative of f(A) in the directions g and h, a symmetric form."""
    scalar = Scalar(name, p)
    x, clamped = _domain(values, scalar, eps)
    if bool(clamped.any()):
        raise ValueError(
            "kernels: a second derivative of a matrix function was asked where eigenvalues are "
            "clamped by eps; it is not supported there"
        )
    bad, counted = x.isnan().any(-1), is_nonzero(g, values) & is_nonzero(h, values)
    v = torch.where(bad[..., None, None], 0, vectors)
    s, t = (degenerate.adjoint(v) @ hermitian_part(y) @ v for y in (g, h))
    core = torch.zeros_like(s)
    for k in range(values.shape[-1]):
        one = x[..., k, None, None]
        d = scalar.second(x[..., :, None], one, x[..., None, :])
        pair = s[..., :, k, None] * t[..., None, k, :] + t[..., :, k, None] * s[..., None, k, :]
        core = core + d * pair
    out = hermitian_part(v @ core @ degenerate.adjoint(v))
    out = torch.where(bad[..., None, None], torch.nan, out)
    return torch.where(counted[..., None, None], out, 0)


_SCALAR = "str name, float p, float? eps"
_function_op = define(
    "matrix_function",
    f"(Tensor a, str hermitian, {_SCALAR}) -> (Tensor, Tensor, Tensor)",
    _run,
    lambda a, *_: (torch.empty_like(a, memory_format=torch.contiguous_format),
                   a.new_empty(a.shape[:-1], dtype=a.dtype.to_real()), a.new_empty(a.shape)),
)  # fmt: skip
_frechet_op = define(
    "frechet",
    f"(Tensor a, Tensor values, Tensor vectors, Tensor g, {_SCALAR}, bool adjoint) -> Tensor",
    lambda a, *rest: _frechet(*rest).contiguous(),
    lambda a, *_: torch.empty_like(a, memory_format=torch.contiguous_format),
)
define(
    "frechet_second",
    f"(Tensor values, Tensor vectors, Tensor g, Tensor h, {_SCALAR}) -> Tensor",
    lambda *args: _second(*args).contiguous(),
    lambda values, vectors, *_: vectors.new_empty(vectors.shape),
)


def _derive(a: Tensor, values: Tensor, vectors: Tensor, g: Tensor, *rest: Any) -> Tensor:
    """`_frechet`, itself differentiable with respect to a and g."""
    if torch.compiler.is_compiling():
        out: Tensor = torch.ops.eigenstream.frechet(a, values, vectors, g, *rest)
        return out
    return _Frechet.apply(a, values, vectors, g, *rest)  # type: ignore[no-any-return,no-untyped-call]  # torch's


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(inputs[0], *output[1:])
    ctx.scalar = inputs[2:]


def _backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
    return (_derive(*ctx.saved_tensors, g, *ctx.scalar, True), *(None,) * 4)


def _keep_frechet(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.scalar, ctx.adjoint = inputs[4:7], inputs[7]


def _backward_frechet(ctx: Any, h: Tensor) -> tuple[Any, ...]:
    a, values, vectors, g = ctx.saved_tensors
    curved = None
    if ctx.needs_input_grad[0]:
        curved = torch.ops.eigenstream.frechet_second(values, vectors, g, h, *ctx.scalar)
    linear = _derive(a, values, vectors, h, *ctx.scalar, not ctx.adjoint)
    return (curved, None, None, linear, *(None,) * 4)


_function_op.register_autograd(_backward, setup_context=_keep)
_frechet_op.register_autograd(_backward_frechet, setup_context=_keep_frechet)


class _Apply(torch.autograd.Function):
    """Eager mode: as the operator, and with forward mode."""

    backward = staticmethod(_backward)

    @staticmethod
    def forward(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
        if is_wrapped(a):
            return tuple(torch.ops.eigenstream.matrix_function(a, *options))
        return _run(a, *options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(inputs[0], *output[1:])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        refuse_forward_twice()
        return _derive(*ctx.saved_tensors, tangent, *ctx.scalar, False), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        out = _Apply.apply(*to_front(info, in_dims, *args))  # type: ignore[no-untyped-call]  # torch's
        return out, (0, 0, 0)


class _Frechet(torch.autograd.Function):
    """Eager mode: as the operator, and with forward mode (over reverse: Hessians)."""

    backward = staticmethod(_backward_frechet)

    @staticmethod
    def forward(a: Tensor, *rest: Any) -> Tensor:
        if any(isinstance(x, Tensor) and is_wrapped(x) for x in (a, *rest)):
            wrapped: Tensor = torch.ops.eigenstream.frechet(a, *rest)
            return wrapped
        return _frechet(*rest)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _keep_frechet(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4])

    @staticmethod
    def jvp(ctx: Any, a: Tensor | None, _v: Any, _w: Any, g: Tensor | None, *_: Any) -> Tensor:
        refuse_forward_twice()
        matrices, values, vectors, at = ctx.saved_tensors
        out = torch.zeros_like(vectors)
        if g is not None:
            out = out + _derive(matrices, values, vectors, g, *ctx.scalar, ctx.adjoint)
        if a is not None:
            second = torch.ops.eigenstream.frechet_second
            out = out + second(values, vectors, at, a, *ctx.scalar)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        return _Frechet.apply(*to_front(info, in_dims, *args)), 0  # type: ignore[no-untyped-call]  # torch's
