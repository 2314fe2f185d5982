"""Graphs of torch operations written with as little work on whole tiles as will do.

A derivative is kept as a product of a number, a part that is the same for all points of a row, and
a part that is not, and multiplied out only where it must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

aten = torch.ops.aten


class Product(NamedTuple):
    """number x flat x full, the last two nodes of a graph, or None for one."""

    number: Any  # float, or complex
    flat: Any
    full: Any


class Writer:
    """A graph in which nothing is done twice. Zero is None in all sums and products."""

    def __init__(self) -> None:
        self.graph = torch.fx.Graph()
        self._known: dict[Any, Any] = {}
        self._is_flat: dict[Any, bool] = {}

    def mark(self, node: Any, shape: Sequence[int]) -> None:
        """Say of what shape a node is: flat if it has one number a row."""
        self._is_flat[node] = len(shape) == 0 or shape[-1] == 1

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """The node of an operation; elementwise, unless it is marked as something else."""
        args = tuple(self.node(a) if isinstance(a, Product) else a for a in args)
        if target is aten.pow.Tensor_Scalar and args[1] == 2:
            target, args = aten.mul.Tensor, (args[0], args[0])
        key = target, _key(args), _key(tuple(sorted(kwargs.items())))
        if key not in self._known:
            node = self.graph.call_function(target, args, kwargs)
            self._known[key] = node
            self._is_flat[node] = all(self._is_flat.get(n, False) for n in node.all_input_nodes)
        return self._known[key]

    def product(self, x: Any) -> Product:
        """A number, a node or a product, as a product."""
        if isinstance(x, Product):
            return x
        if isinstance(x, (int, float, complex)):
            return Product(x, None, None)
        return Product(1.0, x, None) if self._is_flat[x] else Product(1.0, None, x)

    def node(self, x: Any) -> Any:
        """Multiplied out: a node, or a number if there is nothing else."""
        if not isinstance(x, Product):
            return x
        front: Any = x.number if x.flat is None else self._scale(x.flat, x.number)
        if x.full is None:
            return front
        if isinstance(front, (int, float, complex)):
            return self._scale(x.full, front)
        return self.call(aten.mul.Tensor, x.full, front)

    def _scale(self, node: Any, number: Any) -> Any:
        if number == 1:
            return node
        if number == -1:
            return self.call(aten.neg.default, node)
        return self.call(aten.mul.Tensor, node, number)

    def times(self, a: Any, b: Any) -> Product | None:
        """a b."""
        if a is None or b is None:
            return None
        p, q = self.product(a), self.product(b)
        return Product(p.number * q.number, self._both(p.flat, q.flat), self._both(p.full, q.full))

    def _both(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return self.call(aten.mul.Tensor, a, b)

    def over(self, a: Any, b: Any) -> Product | None:
        """a / b for a node b."""
        if a is None:
            return None
        p = self.product(a)
        if self._is_flat[b] or p.full is None:
            return self.times(p, self.call(aten.reciprocal.default, b))
        return p._replace(full=self.call(aten.div.Tensor, p.full, b))

    def plus(self, a: Any, b: Any) -> Any:
        """a + b."""
        if a is None or b is None:
            return b if a is None else a
        p, q = self.product(a), self.product(b)
        if p[1:] == q[1:]:
            return p._replace(number=p.number + q.number)
        if p.full is q.full:
            first, second = self.node(p._replace(full=None)), self.node(q._replace(full=None))
            return Product(1.0, self._sum(first, second), p.full)
        return self.product(self._sum(self.node(p), self.node(q)))

    def _sum(self, a: Any, b: Any) -> Any:
        if isinstance(a, (int, float, complex)):
            a, b = b, a
        return self.call(aten.add.Tensor, a, b)


def _key(x: Any) -> Any:
    """Hashable, and 1 apart from 1.0 and True."""
    if isinstance(x, (tuple, list)):
        return tuple(_key(y) for y in x)
    return x if isinstance(x, torch.fx.Node) else (type(x), str(x))
