"""How a change of the arguments of one torch operation changes its value.

The table behind `kernels.fits.jacobian`. A rule gets the writer, the node of the value, the
arguments, and what each argument changes by: a `Product`, or None for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels.fits.products import Writer
from kernels.models import faddeeva as _  # noqa: F401  # defines the operator named below

aten = torch.ops.aten
Rule = Callable[[Writer, Any, Sequence[Any], Any], Any]


class Unknown(Exception):
    """An operation without a rule: the model is differentiated by forward mode instead."""


def _add(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    return w.plus(d(0), d(1))


def _subtract(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    return w.plus(d(0), w.times(d(1), -1))


def _multiply(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    return w.plus(w.times(d(0), args[1]), w.times(args[0], d(1)))


def _divide(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    by, second = args[1], d(1)
    if not isinstance(by, torch.fx.Node):
        return w.times(d(0), 1 / by)
    return w.plus(w.over(d(0), by), w.times(w.over(w.times(second, -1), by), out))


def _power(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    a, p = args[0], args[1]
    if p == 1 or d(0) is None:
        return d(0)
    lower = a if p == 2 else w.call(aten.pow.Tensor_Scalar, a, p - 1)
    return w.times(w.times(d(0), p), lower)


def _power_of_tensors(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    a, p = args[0], args[1]
    base = None
    if d(0) is not None:
        slope = w.call(aten.pow.Tensor_Tensor, a, w.call(aten.sub.Tensor, p, 1))
        base = w.times(w.times(d(0), p), slope)
    if d(1) is None:
        return base
    # 0^p does not move with p
    log = w.call(
        aten.log.default, w.call(aten.where.ScalarOther, w.call(aten.ne.Scalar, a, 0), a, 1)
    )
    return w.plus(base, w.times(w.times(d(1), log), out))


def _exponential_of(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    return w.times(w.times(d(1), math.log(args[0])), out)


def _choose(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    a, b = d(1), d(2)
    if a is None and b is None:
        return None
    a, b = (0.0 if x is None else w.node(x) for x in (a, b))
    one, two = isinstance(a, torch.fx.Node), isinstance(b, torch.fx.Node)
    if not one and not two:
        chosen = w.call(aten._to_copy.default, args[0], dtype=torch.float64)
        return w.plus(w.times(chosen, a - b), b)
    kind = {(True, True): "self", (True, False): "ScalarOther", (False, True): "ScalarSelf"}
    return w.call(getattr(aten.where, kind[one, two]), args[0], a, b)


def _arctangent_of_two(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
    a, b = args
    square = w.plus(w.times(a, a), w.times(b, b))
    return w.over(w.plus(w.times(d(0), b), w.times(w.times(d(1), a), -1)), w.node(square))


def _chain(slope: Callable[[Writer, Any, Any], Any]) -> Rule:
    """Of a function of one argument, from its slope."""

    def rule(w: Writer, out: Any, args: Sequence[Any], d: Any) -> Any:
        return None if d(0) is None else w.times(d(0), slope(w, args[0], out))

    return rule


def _one_minus_square(w: Writer, out: Any) -> Any:
    return w.call(aten.rsub.Scalar, w.times(out, out), 1)


def _one_plus_square(w: Writer, a: Any) -> Any:
    return w.call(aten.add.Tensor, w.times(a, a), 1)


def _error_slope(w: Writer, a: Any, sign: float) -> Any:
    bell = w.call(aten.exp.default, w.node(w.times(w.times(a, a), -1)))
    return w.times(bell, sign * 2 / math.sqrt(math.pi))


RULES: dict[Any, Rule] = {
    aten.add.Tensor: _add,
    aten.add.Scalar: _add,
    aten.sub.Tensor: _subtract,
    aten.sub.Scalar: _subtract,
    aten.rsub.Scalar: lambda w, out, args, d: w.times(d(0), -1),
    aten.rsub.Tensor: lambda w, out, args, d: _subtract(w, out, args, lambda k: d(1 - k)),
    aten.mul.Tensor: _multiply,
    aten.mul.Scalar: _multiply,
    aten.div.Tensor: _divide,
    aten.div.Scalar: _divide,
    aten.true_divide.Tensor: _divide,
    aten.neg.default: lambda w, out, args, d: w.times(d(0), -1),
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power_of_tensors,
    aten.pow.Scalar: _exponential_of,
    aten.where.self: _choose,
    aten.atan2.default: _arctangent_of_two,
    aten.exp.default: _chain(lambda w, a, out: out),
    aten.expm1.default: _chain(lambda w, a, out: w.call(aten.add.Tensor, out, 1)),
    aten.log.default: lambda w, out, args, d: w.over(d(0), args[0]),
    aten.log1p.default: lambda w, out, args, d: w.over(
        d(0), w.call(aten.add.Tensor, args[0], 1)
    ),
    aten.sin.default: _chain(lambda w, a, out: w.call(aten.cos.default, a)),
    aten.cos.default: _chain(lambda w, a, out: w.times(w.call(aten.sin.default, a), -1)),
    aten.tan.default: _chain(lambda w, a, out: _one_plus_square(w, out)),
    aten.sinh.default: _chain(lambda w, a, out: w.call(aten.cosh.default, a)),
    aten.cosh.default: _chain(lambda w, a, out: w.call(aten.sinh.default, a)),
    aten.tanh.default: _chain(lambda w, a, out: _one_minus_square(w, out)),
    aten.atan.default: lambda w, out, args, d: w.over(d(0), _one_plus_square(w, args[0])),
    aten.sqrt.default: lambda w, out, args, d: w.over(w.times(d(0), 0.5), out),
    aten.rsqrt.default: lambda w, out, args, d: w.times(
        w.over(w.times(d(0), -0.5), args[0]), out
    ),
    aten.square.default: _chain(lambda w, a, out: w.times(a, 2)),
    aten.reciprocal.default: _chain(lambda w, a, out: w.times(w.times(out, out), -1)),
    aten.sigmoid.default: _chain(
        lambda w, a, out: w.times(out, w.call(aten.rsub.Scalar, out, 1))
    ),
    aten.abs.default: _chain(lambda w, a, out: w.call(aten.sgn.default, a)),
    aten.erf.default: _chain(lambda w, a, out: _error_slope(w, a, 1.0)),
    aten.erfc.default: _chain(lambda w, a, out: _error_slope(w, a, -1.0)),
}  # fmt: skip


def _faddeeva(w: Writer, values: Any, args: Sequence[Any], d: Any) -> tuple[Any, Any]:
    """dw/dz = 2 i / sqrt(pi) - 2 z w; w is analytic, so a change of y is i times one of x."""
    (x, y), (re, im) = args, values
    slope = w.times(w.plus(w.times(x, re), w.times(w.times(y, im), -1)), -2)
    turned = w.plus(w.times(w.plus(w.times(x, im), w.times(y, re)), -2), 2 / math.sqrt(math.pi))
    s, t = w.node(slope), w.node(turned)
    return (
        w.plus(w.times(d(0), s), w.times(w.times(d(1), t), -1)),
        w.plus(w.times(d(0), t), w.times(d(1), s)),
    )


PAIRS = {torch.ops.eigenstream.faddeeva.default: _faddeeva}
"""Operations with two values, and how each changes."""

LINEAR = {
    aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.default, aten.squeeze.dims, aten.expand.default, aten.permute.default,
    aten.transpose.int, aten.t.default, aten.view.default, aten._unsafe_view.default,
    aten.alias.default, aten.clone.default, aten.sum.dim_IntList, aten.sum.default,
    aten.mean.dim, aten.index_select.default, aten.cumsum.default, aten.flip.default,
    aten.real.default, aten.imag.default, aten.view_as_real.default, aten._conj.default,
}  # fmt: skip
"""Their change is the same operation on the change of their first argument."""

VIEWS = LINEAR - {
    aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.cumsum.default,
    aten.real.default, aten.imag.default, aten.view_as_real.default, aten._conj.default,
} | {aten.unbind.int, aten.split.Tensor, aten.split_with_sizes.default}  # fmt: skip
"""Every number of their value is one of their argument's."""
