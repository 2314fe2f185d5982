"""One `.npy` file, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse, ReadError, StorageLost
from pipeline.sources.positions import Positions

_PIECE = 2**20
"""Bytes of a piece: a file has no chunks, but the plan needs places where to cut."""

_HEADER = 2**16
"""Files up to this size are loaded instead of mapped."""


class NpyArray:
    """An array in an `.npy` file; attributes and methods as of `zarr.ZarrArray`.

    The file is mapped anew for every read, so it pickles as its path.
    """

    mapped = True
    missing_value: tuple[Any, ...] = ()
    fill = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.attrs: dict[str, Any] = {}
        self._size = path.stat().st_size
        try:
            mapped = self._map()
        except ValueError as error:
            raise Misuse(
                f"{path} cannot be memory-mapped as an .npy file: {error}. A damaged file, or one "
                "of Python objects: write it again with np.save(path, array_of_numbers)."
            ) from error
        self.shape: tuple[int, ...] = mapped.shape
        self.dtype: np.dtype[Any] = mapped.dtype
        self.names: tuple[str | None, ...] = (None,) * mapped.ndim
        self._fortran = not mapped.flags.c_contiguous

    @property
    def where(self) -> str:
        """The array, for messages."""
        return str(self.path)

    def cut(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Pieces of about 1 MiB and whole matrices, cut along the batch dimensions `axes`."""
        piece = list(self.shape)
        for axis in axes:
            piece[axis] = 1
        left = max(1, _PIECE // max(1, prod(piece) * self.dtype.itemsize))
        for axis in axes if self._fortran else reversed(axes):
            piece[axis] = max(1, min(self.shape[axis], left))
            left //= piece[axis]
        return tuple(max(1, n) for n in piece)

    def _map(self) -> npt.NDArray[Any]:
        # An array without entries cannot be mapped by every numpy; its file is a header.
        mode: Literal["r"] | None = "r" if self._size > _HEADER else None
        mapped: npt.NDArray[Any] = np.load(self.path, mmap_mode=mode, allow_pickle=False)
        return mapped

    def read(self, positions: Sequence[Positions]) -> npt.NDArray[Any]:
        """Values at the outer product of `positions`, one entry a dimension, as a copy."""
        try:
            # Touching a mapped page beyond the end of a file kills the process.
            if self.path.stat().st_size != self._size:
                raise ReadError(f"{self.path} has changed its size since the start")
            values = self._map()
        except FileNotFoundError as error:
            raise StorageLost(f"{self.path} cannot be reached any more") from error
        if 0 in [len(p) for p in positions]:
            return np.empty([len(p) for p in positions], dtype=self.dtype)
        values = values[tuple(_as_slice(p) for p in positions)]
        for axis, p in enumerate(positions):
            if not isinstance(p, range):
                values = values.take(p, axis=axis)
        return np.array(values, order="K")

    def identify(self) -> dict[str, Any]:
        """What makes this array this array: type, shape, order and file size.

        The content is not looked at: a file rewritten with other numbers of the same
        shape and type counts as the same input.
        """
        order = "F" if self._fortran else "C"
        return {
            "format": "npy",
            "metadata": {"shape": list(self.shape), "dtype": self.dtype.str, "order": order},
            "chunks": str(self._size),
        }


def _as_slice(p: Positions) -> slice:
    if not isinstance(p, range):
        return slice(None)
    stop = p[-1] + p.step
    return slice(p[0], stop if stop >= 0 else None, p.step)
