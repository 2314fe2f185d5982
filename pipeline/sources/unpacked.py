"""An array of packed symmetric matrices, seen as one of whole matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.sources.npy import NpyArray
from pipeline.sources.positions import Positions
from pipeline.sources.triangles import Triangle
from pipeline.sources.zarr import ZarrArray

if TYPE_CHECKING:
    from pipeline.sources.listing import Entry


class Unpacked:
    """A view of an array whose last dimension holds a triangle; as `zarr.ZarrArray` otherwise."""

    def __init__(self, packed: ZarrArray | NpyArray, triangle: Triangle, packing: str) -> None:
        self.packed, self._triangle, self._packing = packed, triangle, packing
        n = triangle.n
        self.name, self.attrs, self.dtype = packed.name, packed.attrs, packed.dtype
        self._absent: NDArray[np.bool_] | None = None
        self.mapped, self.where = packed.mapped, packed.where
        self.fill, self.missing_value = packed.fill, packed.missing_value
        self.shape: tuple[int, ...] = (*packed.shape[:-1], n, n)
        self.names: tuple[str | None, ...] = (*packed.names[:-1], None, None)
        if isinstance(packed, ZarrArray):
            self.chunk = (*packed.chunk[:-1], n, n)
            self.cell = (*packed.cell[:-1], n, n)

    @property
    def entry(self) -> Entry:
        """The metadata of the packed array in its store."""
        assert isinstance(self.packed, ZarrArray)  # others are `mapped`
        return self.packed.entry

    def cut(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Pieces of an array without chunks."""
        assert isinstance(self.packed, NpyArray)
        return (*self.packed.cut(axes)[:-1], self._triangle.n, self._triangle.n)

    def take_inventory(self) -> None:
        """Look once which chunk files are there."""
        assert isinstance(self.packed, ZarrArray)
        self.packed.take_inventory()

    def find_absent(self, touched: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_] | None:
        """Which cells are absent: those of which any element is."""
        assert isinstance(self.packed, ZarrArray)
        cells = np.arange(-(-self.packed.shape[-1] // self.packed.cell[-1]))
        absent = self.packed.find_absent([*touched[:-2], cells])
        self._absent = absent  # to name the file itself
        return None if absent is None else np.any(absent, axis=-1, keepdims=True)[..., None]

    def name_cell(self, cell: Sequence[int]) -> str:
        """Name of the first absent file of a cell."""
        assert isinstance(self.packed, ZarrArray)
        gone = 0 if self._absent is None else int(self._absent[tuple(cell[:-2])].argmax())
        return self.packed.name_cell([*cell[:-2], gone])

    def read(self, positions: Sequence[Positions]) -> NDArray[Any]:
        """Values at the outer product of positions; always whole matrices."""
        raw = self.packed.read([*positions[:-2], range(self.packed.shape[-1])])
        return np.asarray(raw[..., self._triangle.places])

    def identify(self) -> dict[str, Any]:
        """What makes this array this array."""
        return {**self.packed.identify(), "packing": self._packing}
