"""The sums of a tile as one call without Python in it.

Threads of Python hand the interpreter to each other at every operation of torch; with operations of
some microseconds that costs more than a second core gives. torch.jit.trace writes the operations
down, the same in the same order, so the bits are the same; where there is no torch.jit any more,
or it refuses, they are done one by one. It takes a tenth of a second, so few rows are not worth it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
WORTH = 50_000
"""Rows from which on a model is written down."""


class Scripts:
    """Of one problem: one for each set of arguments, made when it is first needed."""

    def __init__(self, run: Callable[..., Any], wanted: bool) -> None:
        self._run, self._wanted = run, wanted
        self._lock = threading.Lock()
        self._known: dict[Any, Any] = {}

    def find(self, key: Any, args: tuple[Tensor, ...]) -> Callable[..., Any] | None:
        """The script for arguments like these, or None."""
        if not self._wanted:
            return None
        with self._lock:
            if key not in self._known:
                self._known[key] = self._write(key, args)
            found: Callable[..., Any] | None = self._known[key]
        return found

    def _write(self, key: Any, args: tuple[Tensor, ...]) -> Callable[..., Any] | None:
        def run(*args: Tensor) -> Any:
            return self._run(key, *args)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                script: Callable[..., Any] = torch.jit.trace(  # type: ignore[no-untyped-call]  # torch's
                    run, args, check_trace=False
                )
                # in copies: a sum may lie in a tensor that the next call writes to
                expected = [a.clone() for a in run(*args)]
                found = script(*args)
        except Exception:  # the operations one by one will do
            return None
        same = all(_equal(a, b) for a, b in zip(expected, found, strict=True))
        return script if same else None


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether the bits are the same, NaN too."""
    if a.dtype is torch.float64:
        a, b = a.view(torch.int64), b.view(torch.int64)
    return bool(torch.equal(a, b))
