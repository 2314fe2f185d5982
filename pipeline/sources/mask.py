"""Which matrices to solve: `source.mask`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse
from pipeline.sources.listing import Entry, describe
from pipeline.sources.nifti import NiftiImage, is_nifti
from pipeline.sources.npy import NpyArray
from pipeline.sources.opening import Stored, list_store
from pipeline.sources.packing import plan_packing
from pipeline.sources.selection import Axis
from pipeline.sources.zarr import ZarrArray


def open_mask(text: str, options: Mapping[str, Any], entries: Sequence[Entry]) -> Stored:
    """Open what `source.mask` names: a variable among `entries`, or PATH[::VARIABLE]."""
    for e in entries:
        if e.name == text.strip("/"):
            return ZarrArray(e)
    path, _, variable = text.partition("::")
    if is_nifti(path):
        return NiftiImage(Path(path), mask=True)
    try:
        place, found = list_store(path, options)
    except Misuse as error:
        names = ", ".join(e.name for e in entries) or "none"
        raise Misuse(
            f"source.mask={text} is neither an array of the same store (there: {names}) nor a "
            f"store: {error}"
        ) from error
    if found is None:
        assert isinstance(place, Path)
        return NpyArray(place)
    if not variable and len(found) == 1:
        return ZarrArray(found[0])
    for e in found:
        if e.name == variable.strip("/"):
            return ZarrArray(e)
    raise Misuse(
        f"source.mask={text}: name one array of that store, {path}::NAME. "
        f"What is there:\n{describe(found)}"
    )


class Mask:
    """A boolean (or integer) array over some or all batch dimensions; true means solve.

    Absent chunks hold the fill value, as masks with a zero background are stored.

    Raises
    ------
    Misuse
        When its type, dimensions or shape do not fit the stack.
    """

    def __init__(self, stored: Stored, dims: Sequence[str], shape: Sequence[int]) -> None:
        self._stored = stored
        what = f"source.mask {stored.where}"
        if stored.dtype.kind not in "biu":
            raise Misuse(
                f"{what} has type {stored.dtype}, expected bool or an integer (true = solve). "
                "Store it as (mask > 0)."
            )
        if isinstance(stored, ZarrArray):
            # Also refuses a wrong dimension separator, which would mask everything.
            stored.take_inventory()
        self._packing = plan_packing(what, stored.dtype, stored.attrs, stored.missing_value)
        names: tuple[str | None, ...] = stored.names
        if None in names and len(names) == len(dims):
            names = tuple(dims)
        expected = ", ".join(f"{d}: {n}" for d, n in zip(dims, shape, strict=True))
        if not set(names) <= set(dims) or len(set(names)) != len(names):
            raise Misuse(
                f"{what} has dims {stored.names} and shape {stored.shape}; expected dims among the "
                f"batch dimensions ({expected}), before any selection."
            )
        self._axes = tuple(list(dims).index(str(name)) for name in names)
        if tuple(shape[a] for a in self._axes) != stored.shape:
            raise Misuse(
                f"{what} has dims {names} and shape {stored.shape}; expected the lengths of the "
                f"batch dimensions ({expected}), before any selection."
            )

    def read(self, axes: Sequence[Axis], slices: Sequence[slice]) -> npt.NDArray[np.bool_]:
        """Whether to solve each matrix at `slices` of the selection `axes`.

        Parameters
        ----------
        axes : sequence of Axis
            All batch dimensions, dropped ones included.
        slices : sequence of slice
            One for each of them.

        Returns
        -------
        array of bool, one dimension for each of `axes`
        """
        places = [ax.positions[s] for ax, s in zip(axes, slices, strict=True)]
        raw = self._stored.read([places[a] for a in self._axes])
        values, missing = self._packing.unpack(raw)
        chosen = values != 0
        if missing is not None:
            chosen &= ~missing
        order = np.argsort(self._axes)
        chosen = chosen.transpose(order)
        spread = [len(p) if i in self._axes else 1 for i, p in enumerate(places)]
        return np.broadcast_to(chosen.reshape(spread), [len(p) for p in places])

    def identify(self, axes: Sequence[Axis]) -> dict[str, Any]:
        """Digest of the mask's selected content, wherever it lies."""
        digest = hashlib.sha256()
        lengths = [len(ax.positions) if i in self._axes else 1 for i, ax in enumerate(axes)]
        rest = [slice(0, n) for n in lengths[1:]]
        step = max(1, 2**26 // max(1, int(np.prod(lengths[1:], dtype=np.int64))))
        for start in range(0, lengths[0] if lengths else 1, step):
            first = [slice(start, min(start + step, lengths[0]))] if lengths else []
            digest.update(np.packbits(self.read(axes, first + rest)).tobytes())
        dims = [axes[a].dim for a in sorted(self._axes)]
        return {"dims": dims, "shape": lengths, "content": digest.hexdigest()}
