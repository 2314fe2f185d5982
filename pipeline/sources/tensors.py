"""Packed symmetric tensors: six numbers a voxel in a Zarr store, `.npy` file or NIfTI image."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.plan import Block
from pipeline.sources.listing import Entry, choose_entry, describe
from pipeline.sources.nifti import NiftiImage, is_nifti
from pipeline.sources.npy import NpyArray
from pipeline.sources.opening import Stored, list_store
from pipeline.sources.source import Source
from pipeline.sources.triangles import FRAMES, ORDERS, find_triangle
from pipeline.sources.unpacked import Unpacked
from pipeline.sources.zarr import ZarrArray

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

log = logging.getLogger("eigenstream")


class Tensors(Source):
    """A stack of symmetric matrices of which one triangle is stored.

    Nothing is rotated: components refer to the axes to which they referred. The attributes
    `tensor_frame` and, of a NIfTI image, `affine` say what is known of them.
    """

    def __init__(self, config: SourceConfig) -> None:
        super().__init__(config)
        if self.n == 3 and self.row_dim not in self.coords.variables:
            axes = np.array(["x", "y", "z"], dtype=object)
            self.coords = self.coords.assign_coords({self.row_dim: axes})

    def _open(self, config: SourceConfig) -> tuple[Stored, list[Entry]]:
        packed, entries = open_packed(config)
        packing = choose_packing(config.packing, packed)
        triangle = find_triangle(packing, packed.shape[-1] if packed.shape else 1, packed.where)
        self._scale = triangle.scale
        self._frame = {
            "tensor_packing": packing,
            "tensor_frame": FRAMES.get(packing, "that of the stored components; not stated"),
        }
        if isinstance(packed, NiftiImage):
            self._frame |= packed.place()
        return Unpacked(packed, triangle, packing), entries

    def _load_coords(self, full: Sequence[int]) -> Any:
        coords = super()._load_coords(full)
        coords.attrs |= self._frame
        return coords

    def read(
        self, block: Block, todo: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Read the matrices of a block; see `Source.read`."""
        values, missing = super().read(block, todo)
        if (self._scale != 1).any():
            values = values * self._scale.astype(values.real.dtype)
        return values, missing


def open_packed(config: SourceConfig) -> tuple[ZarrArray | NpyArray, list[Entry]]:
    """Open the array that holds the packed tensors."""
    if is_nifti(config.path):
        return NiftiImage(Path(config.path)), []
    place, entries = list_store(config.path, config.storage_options)
    if entries is None:
        assert isinstance(place, Path)
        return NpyArray(place), []
    if len(entries) == 1 and entries[0].folder == place:
        return ZarrArray(entries[0]), entries
    return ZarrArray(choose_packed(entries, config, str(place))), entries


def choose_packed(entries: Sequence[Entry], config: SourceConfig, where: str) -> Entry:
    """Choose the array that `source.variable` names, or the only one with six elements a voxel."""
    if config.variable is not None:
        return choose_entry(entries, where, config.variable, None)
    six = [e for e in entries if len(e.shape) > 1 and e.shape[-1] == 6 and e.name != config.mask]
    if len(six) == 1:
        return six[0]
    raise Misuse(
        f"{where} holds {len(six)} arrays whose last dimension has 6 elements; name the one with "
        f"the tensors by source.variable. What is there:\n{describe(entries)}"
    )


def choose_packing(given: str | None, packed: ZarrArray | NpyArray) -> str:
    """Choose the order of elements: the config's, else what the file states."""
    stated = packed.attrs.get("packing")
    names = ", ".join(f"{name} ({text})" for name, (text, _) in ORDERS.items())
    if given is None and stated not in (*ORDERS, "upper", "lower"):
        said = f" (its attribute packing={stated!r} is not known)" if stated else ""
        raise Misuse(
            f"source.packing: {packed.where} does not say in which order the elements lie{said}, "
            f"and a wrong order gives wrong eigenvectors that look right. Expected one of {names}, "
            f"upper or lower (a triangle row by row). Look up the program that wrote it"
        )
    if given is not None and stated is not None and given != stated:
        log.warning("source.packing=%s, though the file states %r", given, stated)
    return str(given or stated)
