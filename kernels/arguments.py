"""What callers hand in: stacks of matrices of any kind, and options, checked before any work."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
CHUNK_BYTES = 512 * 1024
"""Matrices solved together: small enough for a core's cache, large enough to hide Python."""
SHARE_BYTES = 64 * 1024
"""Less than this is not worth another thread."""


@dataclass(frozen=True)
class Stack:
    """A numpy or torch array whose last `trailing` dimensions are one item.

    The data stay where they are, whatever the strides; `take` copies a piece at a time where the
    kernels cannot read it in place.
    """

    array: Array
    trailing: int
    conjugate: bool
    device: torch.device | None  # None: numpy

    @property
    def batch(self) -> tuple[int, ...]:
        return self.array.shape[: self.array.ndim - self.trailing]

    @property
    def item(self) -> tuple[int, ...]:
        return self.array.shape[self.array.ndim - self.trailing :]

    @property
    def count(self) -> int:
        return math.prod(self.batch)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype.newbyteorder("=")

    def take(self, start: int, stop: int) -> Array:
        """Items start to stop of the batch in C order, native and aligned; a view if it can be."""
        if _merges(self.array, self.trailing):
            piece = self.array.reshape(self.count, *self.item)[start:stop]
        else:
            piece = self.array[np.unravel_index(np.arange(start, stop), self.batch)]
        if not _readable(piece) or piece.dtype != self.dtype:
            piece = np.array(piece, dtype=self.dtype, order="C")
        return piece.conj() if self.conjugate else piece

    def pieces(self, workers: int = 1) -> Iterator[tuple[int, int]]:
        """Bounds of pieces of at most CHUNK_BYTES, smaller if that keeps `workers` busy."""
        size = max(1, math.prod(self.item) * self.dtype.itemsize)
        share = max(SHARE_BYTES // size, -(-self.count // workers))
        step = max(1, min(CHUNK_BYTES // size, share))
        for start in range(0, self.count, step):
            yield start, min(start + step, self.count)

    def give(self, result: Array) -> Any:
        """`result` as the kind, and on the device, of this stack."""
        return result if self.device is None else torch.from_numpy(result).to(self.device)


def _merges(array: Array, trailing: int) -> bool:
    """Whether the batch dimensions can be flattened without a copy."""
    batch = array.ndim - trailing
    sides = [i for i in range(batch) if array.shape[i] != 1]
    return array.size == 0 or all(
        array.strides[i] == array.strides[j] * array.shape[j] for i, j in itertools.pairwise(sides)
    )


def _readable(array: Array) -> bool:
    """Whether the C++ kernels can address it: aligned, strides whole numbers of elements."""
    return array.flags.aligned and all(s % array.itemsize == 0 for s in array.strides)


def as_stack(a: Any, name: str, trailing: int = 2) -> Stack:
    """Accept a numpy array or torch tensor with `trailing` item dimensions.

    Raises
    ------
    ValueError
        For another type or dtype, too few dimensions, or a tensor that a gradient is asked of.
    """
    conjugate, device = False, None
    if isinstance(a, torch.Tensor):
        array, conjugate, device = _read_tensor(a, name)
    elif isinstance(a, np.ndarray) and not isinstance(a, np.ma.MaskedArray):
        array = np.asarray(a)
    else:
        raise ValueError(
            f"{name}: got {type(a).__module__}.{type(a).__qualname__}, expected a plain "
            "numpy.ndarray or torch.Tensor; convert it first (a mask is not applied)"
        )
    if array.ndim < trailing or array.dtype.newbyteorder("=").name not in DTYPES:
        want = "(..., n, n)" if trailing == 2 else "(..., m)"
        raise ValueError(
            f"{name}: got shape {array.shape} and dtype {array.dtype}, expected {want} of "
            f"{', '.join(DTYPES)}; convert with astype or to"
        )
    return Stack(array, trailing, conjugate, device)


def _read_tensor(a: torch.Tensor, name: str) -> tuple[Array, bool, torch.device]:
    if a.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name}: got a tensor that requires grad, and gradients are not supported yet; "
            "pass a.detach(), or call under torch.no_grad()"
        )
    if a.layout is not torch.strided or a.device.type == "meta":
        raise ValueError(
            f"{name}: got a tensor of layout {a.layout} on {a.device}, expected a dense tensor "
            "with data; convert with to_dense"
        )
    if a.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise ValueError(
            f"{name}: got shape {tuple(a.shape)} and dtype {a.dtype}, expected "
            f"{', '.join(DTYPES)}; convert with a.to(torch.float64)"
        )
    plain = a.detach().resolve_neg()
    conjugate = plain.is_conj()
    return (plain.conj() if conjugate else plain).cpu().numpy(), conjugate, a.device


def as_matrices(a: Any, name: str) -> Stack:
    """Accept a stack of square matrices, n >= 1."""
    stack = as_stack(a, name)
    rows, columns = stack.item
    if rows != columns or rows == 0:
        raise ValueError(
            f"{name}: got shape {stack.array.shape} and dtype {stack.dtype}, expected (..., n, n) "
            "with n >= 1"
        )
    return stack


def check_choice(name: str, got: object, expected: tuple[str, ...]) -> None:
    """Raise ValueError unless `got` is one of `expected`."""
    if got not in expected:
        raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(expected)}")


def check_subset(subset: Any, n: int) -> slice:
    """Half-open index range [lo, hi) of the ascending spectrum, negatives from the top.

    None at either end means that end of the spectrum, as in a Python slice.

    Raises
    ------
    ValueError
        Not a pair of whole numbers, outside the spectrum, or empty.
    """
    if subset is None:
        return slice(0, n)
    message = (
        f"subset: got {subset!r}, expected [lo, hi) with 0 <= lo < hi <= {n} for n = {n} "
        f"(negatives count from the top: [-1, {n}] is the largest alone)"
    )
    try:
        lo, hi = (None if x is None else _index(x) for x in subset)
    except (TypeError, ValueError) as error:
        raise ValueError(message) from error
    lo, hi = 0 if lo is None else lo, n if hi is None else hi
    lo, hi = lo + n if lo < 0 else lo, hi + n if hi < 0 else hi
    if not 0 <= lo < hi <= n:
        raise ValueError(message)
    return slice(lo, hi)


def _index(x: Any) -> int:
    if isinstance(x, bool):
        raise TypeError("a boolean is no index")
    return operator.index(x)


def check_threads(threads: int | None) -> int:
    """Threads to use; None means as many as torch would: `torch.get_num_threads()`."""
    if threads is None:
        return torch.get_num_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads: got {threads!r}, expected a whole number >= 1, or None")
    return threads


Hermitian = Literal["lower", "upper", "strict", "average"]
Check = Literal["probe", "full", "off"]
