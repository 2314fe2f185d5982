"""Arrays over a batch of curves, of which a few rows at a time are looked at."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Tensor = torch.Tensor


class Rows:
    """An array broadcast to (batch..., size), never copied as a whole."""

    def __init__(self, array: Tensor, batch: Sequence[int], size: int) -> None:
        self.same = math.prod(array.shape[:-1]) == 1
        """Whether all rows are one and the same."""
        self._array, self._batch = array.expand(*batch, size), tuple(batch)
        self._flat = None
        if self.same:
            self._flat = array.reshape(1, -1).expand(math.prod(batch), size)
        elif self._array.ndim == 2:
            self._flat = self._array

    def take(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Some rows of the batch in C order, (k, size), a copy."""
        if self._flat is not None:
            first, count = int(rows[0]), len(rows)
            if int(rows[-1]) - first == count - 1 and self._rising(rows):
                piece = self._flat[first : first + count]
            else:
                piece = self._flat[rows]
        else:
            piece = self._array[torch.unravel_index(rows, self._batch)]
        return piece.to(dtype)

    @staticmethod
    def _rising(rows: Tensor) -> bool:
        return len(rows) < 2 or bool((rows[1:] > rows[:-1]).all())


def as_tensor(a: Any, name: str, device: torch.device | None = None) -> Tensor:
    """A tensor over the numbers of `a`, where they lie if that can be.

    Raises
    ------
    ValueError
        For what holds no numbers.
    """
    if isinstance(a, torch.Tensor):
        if a.layout is not torch.strided or a.is_meta:
            raise ValueError(f"{name}: got a tensor of layout {a.layout} on {a.device}, expected a "
                             "dense tensor with data; convert with to_dense")  # fmt: skip
        found = a.detach().resolve_conj().resolve_neg()
        return found if device is None else found.to(device)
    if isinstance(a, np.ma.MaskedArray):
        raise ValueError(f"{name}: got a masked array, expected a plain one; hand over its data, "
                         "and ~a.mask as mask")  # fmt: skip
    try:
        array = np.asarray(a)
    except ValueError as error:
        raise ValueError(f"{name}: got {type(a).__qualname__} that is no array: {error}") from None
    if array.dtype.kind not in "biufc":
        raise ValueError(
            f"{name}: got {type(a).__qualname__} of dtype {array.dtype}, expected numbers"
        )
    if array.dtype.char == "g" or array.dtype.kind == "u":
        array = array.astype(np.float64)
    flags = array.flags
    plain = array.dtype.isnative and flags.aligned and all(s >= 0 for s in array.strides)
    if not plain or any(s % array.itemsize for s in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    with warnings.catch_warnings():  # read-only data stay so: nothing is written there
        warnings.simplefilter("ignore", UserWarning)
        found = torch.from_numpy(array)
    return found if device is None else found.to(device)


def broadcast(a: Any, name: str, batch: Sequence[int], size: int, device: torch.device) -> Rows:
    """`a` as rows of (batch..., size).

    Raises
    ------
    ValueError
        For a shape that does not broadcast.
    """
    array = as_tensor(a, name, device)
    if array.ndim == 0:
        array = array[None]
    try:
        whole = np.broadcast_shapes(tuple(array.shape), (*batch, size))
    except ValueError:
        whole = ()
    if whole != (*batch, size):
        raise ValueError(
            f"{name}: got shape {tuple(array.shape)}, expected one that broadcasts to "
            f"{(*batch, size)}"
        )
    return Rows(array, batch, size)
