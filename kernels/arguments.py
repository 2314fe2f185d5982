"""What callers hand in: stacks of matrices of any kind, and options, checked before any work."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
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
    near: bool = field(init=False)  # on the CPU
    in_place: bool = field(init=False)  # pieces are views
    batch: tuple[int, ...] = field(init=False)
    item: tuple[int, ...] = field(init=False)
    count: int = field(init=False)
    dtype: np.dtype[Any] = field(init=False)  # native

    def __post_init__(self) -> None:
        shape, dtype, batch = self.array.shape, self.array.dtype, self.array.ndim - self.trailing
        self.__dict__.update(
            near=self.device is None or self.device.type == "cpu",
            in_place=not self.conjugate and dtype.isnative and _is_flat(self.array, self.trailing),
            batch=shape[:batch],
            item=shape[batch:],
            count=math.prod(shape[:batch]),
            dtype=dtype if dtype.isnative else dtype.newbyteorder("="),
        )

    def take(self, start: int, stop: int) -> Array:
        """Items start to stop of the batch in C order, native and aligned; a view if it can be."""
        if self.in_place:
            return self.array.reshape(self.count, *self.item)[start:stop]
        if _merges(self.array, self.trailing):
            piece = self.array.reshape(self.count, *self.item)[start:stop]
        else:
            piece = self.array[np.unravel_index(np.arange(start, stop), self.batch)]
        if not _readable(piece) or piece.dtype != self.dtype:
            piece = np.array(piece, dtype=self.dtype, order="C")
        return piece.conj() if self.conjugate else piece

    def pieces(self, workers: int = 1, chunk: int = CHUNK_BYTES) -> Iterator[tuple[int, int]]:
        """Bounds of pieces of at most `chunk` bytes, smaller if that keeps `workers` busy."""
        size = max(1, math.prod(self.item) * self.dtype.itemsize)
        share = max(SHARE_BYTES // size, -(-self.count // workers))
        step = max(1, min(chunk // size, share))
        for start in range(0, self.count, step):
            yield start, min(start + step, self.count)

    def give(self, result: Array) -> Any:
        """`result` as the kind, and on the device, of this stack."""
        if self.device is None:
            return result
        import torch

        return torch.from_numpy(result) if self.near else torch.from_numpy(result).to(self.device)


def _is_flat(array: Array, trailing: int) -> bool:
    """Whether the C++ kernels can address the batch, flattened, where it lies."""
    flags = array.flags
    plain = flags.c_contiguous and flags.aligned  # most are, and asking costs nothing
    return plain or (_readable(array) and _merges(array, trailing))


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
        For another type or dtype, or too few dimensions.
    """
    conjugate, device = False, None
    if isinstance(a, np.ndarray) and not isinstance(a, np.ma.MaskedArray):
        array = np.asarray(a)
    elif is_tensor(a):
        array, conjugate, device = _read_tensor(a, name)
    else:
        raise ValueError(
            f"{name}: got {type(a).__module__}.{type(a).__qualname__}, expected a plain "
            "numpy.ndarray or torch.Tensor; convert it first (a mask is not applied)"
        )
    if array.ndim < trailing or array.dtype.char not in "fdFD":
        want = "(..., n, n)" if trailing == 2 else "(..., m)"
        raise ValueError(
            f"{name}: got shape {array.shape} and dtype {array.dtype}, expected {want} of "
            f"{', '.join(DTYPES)}; convert with astype or to"
        )
    return Stack(array, trailing, conjugate, device)


def is_tensor(a: Any) -> bool:
    """Whether `a` is a torch tensor. torch takes a second to load: not for arrays of numpy."""
    if isinstance(a, np.ndarray):
        return False
    import torch

    return isinstance(a, torch.Tensor)


def _read_tensor(a: torch.Tensor, name: str) -> tuple[Array, bool, torch.device]:
    import torch

    if a.layout is not torch.strided or a.is_meta:
        raise ValueError(
            f"{name}: got a tensor of layout {a.layout} on {a.device}, expected a dense tensor "
            "with data; convert with to_dense"
        )
    if str(a.dtype).removeprefix("torch.") not in DTYPES:
        raise ValueError(
            f"{name}: got shape {tuple(a.shape)} and dtype {a.dtype}, expected "
            f"{', '.join(DTYPES)}; convert with a.to(torch.float64)"
        )
    plain = a.detach() if a.requires_grad else a
    if plain.is_neg():
        plain = plain.resolve_neg()
    conjugate = plain.is_conj()
    if conjugate:
        plain = plain.conj()
    return (plain if a.is_cpu else plain.cpu()).numpy(), conjugate, a.device


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


def broadcast_pair(a: Stack, b: Stack) -> tuple[Stack, Stack]:
    """`a` and `b` broadcast against each other.

    Raises
    ------
    ValueError
        Shapes, dtypes or kinds that do not belong together.
    """
    problem = None
    if (a.device is None) != (b.device is None) or a.device != b.device:
        problem = f"got it on {b.device or 'numpy'}, a on {a.device or 'numpy'}; move one of them"
    elif not np.can_cast(b.dtype, a.dtype, "safe"):
        problem = f"got {b.dtype} for a of {a.dtype}, expected a dtype that holds b; convert a"
    elif a.item != b.item:
        problem = f"got it of shape {b.array.shape}, expected (..., {a.item[0]}, {a.item[0]})"
    try:
        batch = np.broadcast_shapes(a.batch, b.batch)
    except ValueError:
        problem = f"got it of shape {b.array.shape} that does not broadcast to a, {a.array.shape}"
    if problem:
        raise ValueError(f"b: {problem}")
    first, second = (replace(s, array=np.broadcast_to(s.array, (*batch, *s.item))) for s in (a, b))
    return first, second


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


def check_width(degenerate: Any, dtype: Any) -> float:
    """Width of the broadening in units of max|l|; negative for none."""
    if degenerate == "error":
        return -1.0
    if degenerate == "broaden":
        return math.cbrt(float(np.finfo(str(dtype).removeprefix("torch.")).eps))
    if isinstance(degenerate, (int, float)) and degenerate > 0:
        return float(degenerate)
    raise ValueError(f"degenerate: got {degenerate!r}, expected error, broaden or a number > 0")


def check_threads(threads: int | None) -> int:
    """Threads to use; None means as many as torch would: `torch.get_num_threads()`."""
    if threads is None:
        import torch

        return torch.get_num_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads: got {threads!r}, expected a whole number >= 1, or None")
    return threads


Hermitian = Literal["lower", "upper", "strict", "average"]
Check = Literal["probe", "full", "off"]
Degenerate = float | Literal["error", "broaden"]
