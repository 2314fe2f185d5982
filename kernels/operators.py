"""`eigh` as operators of torch, for tensors that a gradient, a transform or a graph follows.

`eigenstream::eigh` and `eigenstream::eigvalsh` are what torch.compile, torch.export and vmap see.
Outside of a graph an autograd.Function goes around them, because forward mode through a custom
operator is silently zero. Tensors that nothing follows never come here.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # not in torch's stubs

from kernels import batch, degenerate, gradients
from kernels.answer import Choices
from kernels.arguments import Array, check_subset, check_width
from kernels.gradients import define, is_wrapped, to_front
from kernels.residual import verify
from kernels.result import Eigen, Status

Tensor = torch.Tensor


def is_followed(a: Tensor) -> bool:
    """Whether autograd, a functorch transform, a dispatch mode or a graph follows `a`."""
    return (
        torch.compiler.is_compiling()
        or (a.requires_grad and torch.is_grad_enabled())
        or is_wrapped(a)
    )


def _is_batched_only() -> bool:
    """Whether vmap alone, or a dispatch mode, follows: no derivative, in any order."""
    stack = torch._C._functorch.get_interpreter_stack() or []
    vmap = torch._C._functorch.TransformType.Vmap
    return forward_ad._current_level < 0 and all(layer.key() == vmap for layer in stack)


def refuse_forward_twice() -> None:
    """Forward mode over forward mode would see zeros: torch turns it off in a Function's jvp."""
    stack = torch._C._functorch.get_interpreter_stack() or []
    jvp = torch._C._functorch.TransformType.Jvp
    if sum(layer.key() == jvp for layer in stack) > 1:
        raise NotImplementedError(
            "kernels: forward mode over forward mode is not supported; take one of the two "
            "derivatives in reverse mode, as jacfwd(jacrev(f)) and torch.func.hessian do"
        )


def eigh(a: Tensor, vectors: bool, subset: Any, broaden: Any, choices: Choices) -> Eigen:
    """`kernels.eigh` of a tensor that is followed."""
    if not a.is_floating_point() and not a.is_complex():
        raise ValueError(f"kernels.eigh: got dtype {a.dtype}, expected float32 or more")
    width = check_width(broaden, a.dtype)
    graph = torch.compiler.is_compiling()
    ops = torch.ops.eigenstream
    found: tuple[Tensor, ...]
    derived = (a.requires_grad and torch.is_grad_enabled()) or not (graph or _is_batched_only())
    if not vectors and not derived:
        values, residual, status = ops.eigvalsh(a, *choices, width)
        found = values, values, residual, status
    elif graph:
        found = ops.eigh(a, *choices, width)
    else:
        found = _Eigh.apply(a, *choices, width)  # type: ignore[no-untyped-call]  # torch's
    values, v, residual, status = found
    if subset is not None:
        part = check_subset(subset, a.shape[-1])
        values, v = values[..., part], v[..., part]
    return Eigen(values, v if vectors else None, residual, status)


def proved(x: Tensor, status: Tensor) -> Tensor:
    """`x`, or LinAlgError when it is computed, if a status is bad; may stand in a graph."""
    out: Tensor = torch.ops.eigenstream.proved(x, status)
    return out


def raise_for(status: Tensor) -> None:
    """Raise LinAlgError if a status is bad, as torch.linalg does."""
    bad = (status > Status.repaired).nonzero()
    if len(bad):
        index = tuple(bad[0].tolist())
        name = Status(int(status[index])).name
        raise LinAlgError(
            f"linalg.eigh: (Batch element {index}): {name}; {len(bad)} of "
            f"{status.numel()} matrices have no proved decomposition"
        )


def _run_eigh(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
    """All pairs; the bases of equal eigenvalues turned as `degenerate.turn` says."""
    matrices = a.detach().cpu().resolve_conj().resolve_neg().numpy()  # the solver's own kind
    choices = Choices(*options[:-1])
    values, vectors, residual, status = batch.solve(matrices, choices)
    n = a.shape[-1]
    if n > 1:
        flat = values.reshape(-1, n), vectors.reshape(-1, n, n)
        rows = degenerate.turn(*flat)
        if rows and choices.check != "off":
            picked = _mended(matrices.reshape(-1, n, n)[rows], choices.hermitian)
            again = verify(picked, *(x[rows] for x in flat), mode=choices.check)
            residual = residual.copy()
            residual.reshape(-1)[rows] = again
    found = (torch.from_numpy(np.asarray(x)) for x in (values, vectors, residual, status))
    return tuple(found if a.is_cpu else (x.to(a.device) for x in found))


def _mended(matrices: Array, hermitian: str) -> Array:
    """With the lower triangle of what was solved."""
    if hermitian == "lower":
        return matrices
    adjoint = matrices.conj().swapaxes(-1, -2)
    return adjoint if hermitian == "upper" else (matrices + adjoint) / 2


def _run_eigvalsh(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
    found = batch.solve(a, Choices(*options[:-1]), vectors=False)
    return found.values, found.residual, found.status


def _fake_eigvalsh(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"kernels.eigh: got shape {tuple(a.shape)}, expected (..., n, n)")
    batch = a.shape[:-2]
    real = a.dtype.to_real()
    return (
        a.new_empty(a.shape[:-1], dtype=real),
        a.new_empty(batch, dtype=torch.float32),
        a.new_empty(batch, dtype=torch.uint8),
    )


def _fake_eigh(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
    values, residual, status = _fake_eigvalsh(a, *options)
    return values, a.new_empty(a.shape), residual, status


_ARGUMENTS = (
    "(Tensor a, str hermitian, float? hermitian_tol, str driver, str check, bool repair, "
    "int? threads, float width)"
)
_eigh_op = define(
    "eigh", _ARGUMENTS + " -> (Tensor, Tensor, Tensor, Tensor)", _run_eigh, _fake_eigh
)
_eigvalsh_op = define(
    "eigvalsh", _ARGUMENTS + " -> (Tensor, Tensor, Tensor)", _run_eigvalsh, _fake_eigvalsh
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    values, vectors, residual, status = output
    ctx.mark_non_differentiable(residual, status)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(values, vectors)
    ctx.width = inputs[-1]


def _backward(ctx: Any, g: Tensor | None, gv: Tensor | None, *_: Any) -> tuple[Any, ...]:
    none = (None,) * 7
    if g is None and gv is None:
        return (None, *none)
    values, vectors = ctx.saved_tensors
    return (gradients.backward(values, vectors, g, gv, ctx.width), *none)


def _keep_matrices(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.options = inputs[1:]


def _backward_of_values(ctx: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
    """The vectors are solved for here, so that nothing more than the matrices is kept."""
    values, vectors, *_ = torch.ops.eigenstream.eigh(*ctx.saved_tensors, *ctx.options)
    return (gradients.backward(values, vectors, g, None, ctx.options[-1]), *(None,) * 7)


_eigh_op.register_autograd(_backward, setup_context=_keep)
_eigvalsh_op.register_autograd(_backward_of_values, setup_context=_keep_matrices)


class _Eigh(torch.autograd.Function):
    """Forward mode and function transforms in eager mode."""

    backward = staticmethod(_backward)

    @staticmethod
    def forward(a: Tensor, *options: Any) -> tuple[Tensor, ...]:
        if is_wrapped(a):
            return tuple(torch.ops.eigenstream.eigh(a, *options))
        return _run_eigh(a, *options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(*output[:2])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        refuse_forward_twice()
        values, vectors = ctx.saved_tensors
        return (*gradients.forward(values, vectors, tangent, ctx.width), None, None)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        out = _Eigh.apply(*to_front(info, in_dims, *args))  # type: ignore[no-untyped-call]  # torch's
        return out, (0, 0, 0, 0)


# torch asks for it at every call, and takes a function's attribute for the answer
_Eigh.forward.__signature__ = inspect.signature(_Eigh.forward)  # type: ignore[attr-defined]  # functions take attributes


def _proved(x: Tensor, status: Tensor) -> Tensor:
    raise_for(status)
    return x.clone(memory_format=torch.contiguous_format)


def _fake_proved(x: Tensor, status: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


define("proved", "(Tensor x, Tensor status) -> Tensor", _proved, _fake_proved).register_autograd(
    lambda ctx, cotangent: (cotangent, None)
)
