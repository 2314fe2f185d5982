"""How blocks and matrices are named to people: by dimension, position and coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pipeline.plan import Block


def name_block(block: Block, dims: tuple[str, ...], coords: xr.Dataset) -> str:
    """Name a block, for example `block 12 (k1[3:5] = 0.25 .. 0.33, k2[0:12] = 0 .. 0.92)`."""
    if not dims:
        return f"block {block.index}"
    parts = []
    for dim, start, stop in zip(dims, block.start, block.stop, strict=True):
        text = f"{dim}[{start}:{stop}]"
        if dim in coords.coords and stop > start:
            labels = coords[dim].values
            text += f" = {show_label(labels[start])} .. {show_label(labels[stop - 1])}"
        parts.append(text)
    return f"block {block.index} ({', '.join(parts)})"


def name_matrix(index: tuple[int, ...], dims: tuple[str, ...], coords: xr.Dataset) -> str:
    """Name a matrix, for example `k1[3], k2[0]: k1=0.25, k2=0`; up to 8 of its coordinates.

    Those of the dimensions come first.
    """
    at = dict(zip(dims, (int(i) for i in index), strict=True))
    labels = [
        f"{name}={show_label(value)}"
        for name, variable in sorted(coords.coords.items(), key=lambda item: item[0] not in dims)
        if set(variable.dims) <= set(dims) and variable.dims
        for value in [variable.isel({d: at[str(d)] for d in variable.dims}).values[()]]
    ]
    place = ", ".join(f"{dim}[{i}]" for dim, i in at.items())
    return f"{place}: {', '.join(labels[:8])}" if labels else place


def show_label(value: Any) -> str:
    """Show one coordinate value briefly."""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="s"))
    return str(value)
