"""A model and its exact derivatives with respect to each parameter, for a tile of rows.

The model is recorded once for a tile's shape, as operations of torch (make_fx), and the change with
each parameter is written beside it, operation by operation: forward mode, with one tangent a
parameter, but nothing is computed where a tangent is zero or the same for all points, and the value
once for all tangents. Where an operation has no rule, or the model cannot be recorded (it looks at
numbers), torch's own forward mode runs it once a parameter.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from kernels.fits.products import Product, Writer
from kernels.fits.rules import LINEAR, PAIRS, RULES, VIEWS, Unknown, aten

Tensor = torch.Tensor
Model = Callable[[Any, Tensor], Tensor]
Slope = tuple[float, Any, Any] | None
"""number, (rows, 1) tensor, (rows, points) tensor, to be multiplied, None for 1; or None for 0."""
Slopes = Callable[..., tuple[Tensor, list[Slope]]]
"""(x, params) -> value (rows, points) and the slope of each free parameter."""


class Derivative(NamedTuple):
    """A model with its derivatives, how they are found, and if for this number of rows only."""

    slopes: Slopes
    route: str  # "recorded" or "forward mode"
    sized: bool


_LEVEL = threading.Lock()  # forward mode of torch has one level for the whole process


def differentiate(
    model: Model, x: Any, params: Tensor, free: Sequence[int], source: Sequence[int]
) -> Derivative:
    """The model with its derivatives, for arguments of this shape.

    Parameters
    ----------
    model : callable
        model(x, params) -> (rows, points), of torch operations.
    x : (rows, points) tensor, or tuple of such
    params : (rows, p) tensor
        Their numbers do not matter, unless the model looks at them.
    free : indices of the parameters whose derivatives are wanted
    source : for each parameter, the one whose value it has: its own index, unless it is tied

    """
    try:
        recorded = _record(model, x, params)
        return Derivative(
            _write(recorded, x, free, source), "recorded", _is_sized(recorded, params)
        )
    except Exception:  # whatever stops the recording, the model itself may be right
        return Derivative(_push(model, free, source), "forward mode", False)


def check_model(model: Model, x: Any, params: Tensor, is_complex: bool) -> None:
    """Call a model once.

    Raises
    ------
    ValueError
        If it fails, or gives what is no curve for each row.
    """
    points = (x[0] if isinstance(x, tuple) else x).shape
    what = f"for x {tuple(points)} and params {tuple(params.shape)}"
    rule = "it is called with some rows at a time and must broadcast over them: params[..., i:i+1]"
    try:
        value = model(x, params)
    except Exception as error:
        raise ValueError(
            f"fit: model: raised {type(error).__name__}: {error} {what}; {rule}"
        ) from error
    if not isinstance(value, Tensor):
        raise ValueError(f"fit: model: gave {type(value).__qualname__} {what}, expected a tensor")
    try:
        fits = value.expand(points).shape == points
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"fit: model: gave shape {tuple(value.shape)} {what}; {rule}")
    if value.is_complex() and not is_complex:
        raise ValueError("fit: model: gave complex numbers for real y; give y as complex too")


def _is_sized(recorded: Any, params: Tensor) -> bool:
    """Whether the number of rows may stand in the graph."""
    found: list[Any] = []
    for node in recorded.graph.nodes:
        torch.fx.node.map_aggregate((node.args, node.kwargs), found.append)
    return any(x == len(params) for x in found if isinstance(x, int)) or any(
        node.target in LINEAR - VIEWS or node.op == "get_attr" for node in recorded.graph.nodes
    )


def _record(model: Model, x: Any, params: Tensor) -> torch.fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx  # a second, with what it imports

    several = isinstance(x, tuple)

    def flat(params: Tensor, *x: Tensor) -> Tensor:
        return model(x if several else x[0], params)

    with torch.no_grad():
        recorded: torch.fx.GraphModule = make_fx(flat)(params, *(x if several else (x,)))
    return recorded


def _write(recorded: Any, x: Any, free: Sequence[int], source: Sequence[int]) -> Slopes:
    """The recorded graph and the slopes of its output, as one function."""
    writer, tangents = Writer(), _Tangents(free)
    made: dict[Any, Any] = {}
    for k, node in enumerate(recorded.graph.nodes):
        if node.op == "placeholder":
            made[node] = writer.graph.placeholder(node.name)
            writer.mark(made[node], _shape(node))
            if k == 0:
                tangents.seed(node, source)
        elif node.op == "get_attr":
            made[node] = writer.graph.get_attr(node.target)
            writer.mark(made[node], getattr(recorded, node.target).shape)
        elif node.op == "call_function":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), made.__getitem__)
            made[node] = writer.call(node.target, *args, **kwargs)
            if isinstance(node.meta.get("val"), Tensor):
                writer.mark(made[node], _shape(node))
            tangents.follow(writer, node, made)
        else:
            out = node.args[0]
            last = out[0] if isinstance(out, (tuple, list)) else out
            slopes = [tangents.of(last, i) for i in free]
            writer.graph.output((made[last], [None if s is None else tuple(s) for s in slopes]))
    writer.graph.eliminate_dead_code()
    run = torch.fx.GraphModule(recorded, writer.graph).forward
    if isinstance(x, tuple):
        return lambda x, params: run(params, *x)
    return lambda x, params: run(params, x)


def _shape(node: Any) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        raise Unknown(f"{node.target} gives no tensor")
    return value.shape


class _Tangents:
    """What each node changes by, with each parameter."""

    def __init__(self, free: Sequence[int]) -> None:
        self._free = free
        self._ids: dict[Any, Tensor] = {}  # of parameters and views of them: which, where
        self._slopes: dict[Any, dict[int, Any]] = {}

    def seed(self, node: Any, source: Sequence[int]) -> None:
        self._ids[node] = torch.tensor(source).expand(_shape(node))

    def of(self, node: Any, i: int) -> Product | None:
        """The change of a node with parameter i."""
        if not isinstance(node, torch.fx.Node):
            return None
        if node not in self._ids:
            return self._slopes.get(node, {}).get(i)
        hit = self._ids[node] == i
        if not bool(hit.any()):
            return None
        if bool(hit.all()):
            return Product(1.0, None, None)
        raise Unknown("several parameters in one operation")

    def follow(self, writer: Writer, node: Any, made: dict[Any, Any]) -> None:
        """Write the changes of a node that was just made."""
        inputs = [n for n in node.all_input_nodes if self._moves(n)]
        if not inputs:
            return
        if node.target is operator.getitem and inputs[0] in self._ids:
            self._ids[node] = self._ids[inputs[0]][node.args[1]]
            return
        if node.target in PAIRS:
            return  # its two values are told apart, and changed, where they are taken
        if node.target in VIEWS and inputs == [node.args[0]] and node.args[0] in self._ids:
            self._ids[node] = node.target(self._ids[node.args[0]], *node.args[1:], **node.kwargs)
            return
        self._slopes[node] = {}
        for i in self._free:
            slope = self._apply(writer, node, made, i)
            if slope is not None:
                self._slopes[node][i] = slope

    def _moves(self, node: Any) -> bool:
        known = node in self._ids or node in self._slopes
        return known or (node.target in PAIRS and any(map(self._moves, node.all_input_nodes)))

    def _apply(self, writer: Writer, node: Any, made: dict[Any, Any], i: int) -> Any:
        def change(k: int) -> Product | None:
            return self.of(node.args[k], i)

        args = torch.fx.node.map_arg(tuple(node.args), made.__getitem__)
        if node.target is operator.getitem and node.args[0].target in PAIRS:
            return self._take(writer, node, made, i)
        if node.target in LINEAR and all(n is node.args[0] for n in node.all_input_nodes):
            first = change(0)
            if first is None:
                return None
            whole = _spread(writer, first, node.args[0], args[0])
            slope = writer.call(node.target, whole, *args[1:], **node.kwargs)
            writer.mark(slope, _shape(node))
            return writer.product(slope)
        if node.target not in RULES or node.kwargs:
            raise Unknown(str(node.target))
        found = RULES[node.target](writer, made[node], args, change)
        return found if found is None else writer.product(found)

    def _take(self, writer: Writer, node: Any, made: dict[Any, Any], i: int) -> Product | None:
        """One of the two values of an operation that has two."""
        pair, which = node.args
        args = torch.fx.node.map_arg(tuple(pair.args), made.__getitem__)
        values = [writer.call(operator.getitem, made[pair], k) for k in (0, 1)]
        for value in values:
            writer.mark(value, _shape(node))
        found = PAIRS[pair.target](writer, values, args, lambda k: self.of(pair.args[k], i))[which]
        return None if found is None else writer.product(found)


def _spread(writer: Writer, slope: Product, node: Any, value: Any) -> Any:
    """As a tensor of the shape of the value."""
    shape = list(_shape(node))
    whole = writer.node(slope)
    if isinstance(whole, (int, float, complex)):
        whole = writer.call(aten.full_like.default, value, whole)
    else:
        whole = writer.call(aten.expand.default, whole, shape)
    writer.mark(whole, shape)
    return whole


def _push(model: Model, free: Sequence[int], source: Sequence[int]) -> Slopes:
    """torch's forward mode, one parameter at a time."""
    with warnings.catch_warnings():  # of torch.jit, which this part of torch is loaded by
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch._decomp.decompositions_for_jvp

    def run(x: Any, params: Tensor) -> tuple[Tensor, list[Slope]]:
        slopes: list[Slope] = []
        value = None
        with _LEVEL, forward_ad.dual_level():
            for i in free:
                tangent = torch.zeros_like(params)
                tangent[..., torch.tensor(source) == i] = 1
                dual = forward_ad.make_dual(params, tangent)  # type: ignore[no-untyped-call]  # torch's
                out = model(x, dual)
                value, slope = forward_ad.unpack_dual(out)  # type: ignore[no-untyped-call]  # torch's
                slopes.append(slope if slope is None else (1.0, None, slope))
        return (model(x, params) if value is None else value), slopes

    return run
