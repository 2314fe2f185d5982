"""Absent chunks: which of them matter, and the refusal that names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import xarray as xr

from pipeline.errors import Misuse
from pipeline.sources.layout import Layout
from pipeline.sources.regions import describe_region, gather_runs
from pipeline.sources.selection import Axis
from pipeline.sources.unpacked import Unpacked
from pipeline.sources.zarr import ZarrArray

if TYPE_CHECKING:
    from pipeline.sources.mask import Mask

Bools = npt.NDArray[np.bool_]
_NAMED = 10
_SLAB = 2**24
"""Matrices whose mask is looked at together, to bound the memory."""


def find_wanted(axes: Sequence[Axis], grid: tuple[int, ...], mask: Mask | None) -> Bools:
    """Which cells of the stored batch grid hold a matrix that is selected and not masked."""
    wanted = np.zeros(grid, dtype=bool)
    if mask is None or not axes:
        wanted[np.ix_(*(ax.runs[1] for ax in axes)) if axes else ()] = True
        return wanted
    whole = [slice(0, len(ax.positions)) for ax in axes[1:]]
    rest = int(np.prod([s.stop for s in whole], dtype=np.int64))
    edges, cells = axes[0].runs
    first = 0
    while first < len(cells):
        limit = edges[first] + max(1, _SLAB // max(1, rest))
        last = max(first + 1, int(np.searchsorted(edges, limit, side="right")) - 1)
        todo = mask.read(axes, [slice(int(edges[first]), int(edges[last])), *whole])
        local = [edges[first : last + 1] - edges[first], *(ax.runs[0] for ax in axes[1:])]
        place = np.ix_(cells[first:last], *(ax.runs[1] for ax in axes[1:]))
        np.logical_or.at(wanted, place, gather_runs(todo, local))
        first = last
    return wanted


def refuse_absent(
    stored: ZarrArray | Unpacked, layout: Layout, absent: Bools, wanted: Bools, coords: xr.Dataset
) -> None:
    """Raise Misuse when a wanted cell is absent.

    Parameters
    ----------
    stored, layout
        The array and the roles of its dimensions.
    absent : array of bool
        Over the array's grid of cells.
    wanted : array of bool
        Over the batch dimensions' grid of cells.
    coords : xarray.Dataset
        Coordinates before selection.
    """
    hit = absent & np.expand_dims(wanted, sorted((layout.row, layout.column)))
    count = int(hit.sum())
    if not count:
        return
    lines = []
    for cell in np.argwhere(hit)[:_NAMED].tolist():
        ends = [
            slice(cell[a] * stored.cell[a], min((cell[a] + 1) * stored.cell[a], stored.shape[a]))
            for a in layout.axes
        ]
        lines.append(f"  {stored.name_cell(cell)}: {describe_region(layout.dims, ends, coords)}")
    if count > _NAMED:
        lines.append(f"  ... and {count - _NAMED} more")
    total = int(np.prod(hit.shape, dtype=np.int64))
    raise Misuse(
        f"{count} of {total} chunks of {stored.where} are absent:\n"
        + "\n".join(lines)
        + "\nThe store may be incomplete. If they are absent because the writer leaves out chunks "
        f"that hold only the fill value (a zero background), read them as {stored.fill}: "
        "source.missing=fill. To solve the rest and mark these matrices as missing: "
        "source.missing=flag. Otherwise copy or compute them again."
    )
