"""One function, called through a graph of the device's where there is such a thing.

`torch.cuda.graph` on CUDA and ROCm; `torch.accelerator.Graph` elsewhere, if the device has one (in
torch 2.12 to 2.14 CUDA registers none, and on the CPU its constructor raises); eager otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor
WARM_UP = 3
"""Calls before a capture: they make what is made once, workspaces and the state of optimizers."""


class Captured:
    """`fn`, captured at the first call with arguments of a shape and replayed from then on.

    Parameters
    ----------
    fn : callable
        Tensors in, tensors or None out; no synchronisation with the host in it. Optimizers must be
        made with capturable=True where they have it.
    mutates : callable, optional
        Gives the tensors that `fn` changes besides its results, as parameters and the state of an
        optimizer. Warm-up and capture are real calls: what they changed is put back.

    Calling it gives new tensors. `graph` says whether the last call was a replay.
    """

    def __init__(
        self, fn: Callable[..., Any], *, mutates: Callable[[], Sequence[Tensor]] = tuple
    ) -> None:
        self._fn, self._mutates = fn, mutates
        self._kept: dict[Any, tuple[Any, list[Tensor], Any]] = {}
        self.graph = False

    def __call__(self, *args: Tensor) -> Any:
        device = _device_of([*args, *self._mutates()])
        if not has_graphs(device):
            self.graph = False
            return self._fn(*args)
        key = tuple((a.shape, a.dtype, a.device, a.stride()) for a in args)
        if key not in self._kept:
            self._kept[key] = self._capture(device, args)
        graph, inputs, output = self._kept[key]
        for inner, outer in zip(inputs, args, strict=True):
            inner.copy_(outer)
        graph.replay()
        self.graph = True
        return _clone(output)

    def _capture(
        self, device: torch.device, args: Sequence[Tensor]
    ) -> tuple[Any, list[Tensor], Any]:
        inputs = [a.clone() for a in args]
        stream = torch.Stream(device)  # not the default one, which cannot be captured
        stream.wait_stream(torch.accelerator.current_stream(device))
        before = [t.detach().clone() for t in self._mutates()]
        with stream:
            for _ in range(WARM_UP):
                self._fn(*inputs)
        torch.accelerator.synchronize(device)
        self._put_back(before)
        with _recording(device, stream) as graph:
            output = self._fn(*inputs)
        torch.accelerator.synchronize(device)
        self._put_back(before)
        return graph, inputs, output

    def _put_back(self, before: list[Tensor]) -> None:
        """What was there; what has been made since starts from zero."""
        with torch.no_grad():
            for k, tensor in enumerate(self._mutates()):
                if k < len(before):
                    tensor.copy_(before[k])
                else:
                    tensor.zero_()


def has_graphs(device: torch.device) -> bool:
    """Whether calls on a device can be captured."""
    if device.type == "cuda":
        return torch.cuda.is_available()
    if device.type == "cpu" or not hasattr(torch.accelerator, "Graph"):
        return False
    try:
        torch.accelerator.Graph()
    except (RuntimeError, NotImplementedError):  # torch has the class, this backend no graphs
        return False
    return True


@contextlib.contextmanager
def _recording(device: torch.device, stream: Any) -> Any:
    if device.type == "cuda":
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            yield graph
        return
    graph = torch.accelerator.Graph()
    with stream, graph:
        yield graph


def _device_of(tensors: Sequence[Tensor]) -> torch.device:
    return next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))


def _clone(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.clone()
    if isinstance(output, (tuple, list)):
        return type(output)(_clone(x) for x in output)
    return output
