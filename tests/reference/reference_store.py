"""What the reference tests share: an input as a physicist writes it, and a run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import pipeline

EPS = float(np.finfo(np.float64).eps)


def write_stack(
    path: Path,
    name: str,
    values: NDArray[Any],
    dims: Sequence[str],
    *,
    units: str,
    coords: Mapping[str, Any] | None = None,
    chunks: Sequence[int] | None = None,
    zarr_format: int = 3,
) -> Path:
    """Write or add a labelled stack to a Zarr group with xarray, by default in one chunk."""
    stack = xr.Dataset({name: (dims, values, {"units": units})}, coords=coords)
    encoding = {name: {"chunks": tuple(chunks or values.shape)}}
    consolidated = zarr_format == 2  # version 3 does not define it yet, and zarr-python warns
    stack.to_zarr(
        path, mode="a", encoding=encoding, zarr_format=zarr_format, consolidated=consolidated
    )
    return path


def run_stack(path: Path, out: str = "out.zarr", **nested: Any) -> xr.DataTree:
    """Run the pipeline on a store, in this process unless told otherwise; `out` lies beside it."""
    nested = {"cluster": "serial", **nested}
    nested["source"] = {"path": str(path), **nested.get("source", {})}
    nested["sink"] = {"path": str(path.parent / out), **nested.get("sink", {})}
    return pipeline.run(**nested)


def check_all_ok(tree: xr.DataTree) -> None:
    """Every matrix has a proved answer."""
    assert (tree.status == 0).all(), np.unique(tree.status, return_counts=True)
    assert np.isfinite(tree.eigenvalues).all()
    assert (tree.residual <= 50).all()


def measure_pairs(
    matrices: NDArray[Any], values: NDArray[Any], vectors: NDArray[Any]
) -> tuple[float, float]:
    """Worst |A v - lambda v| over the norm, and worst |V^H V - 1|, of all pairs of a stack.

    Matrices are first scaled by a power of two, so that their scale does not matter.
    """
    peak = np.abs(matrices).max(axis=(-2, -1), initial=0)
    power = -np.frexp(peak)[1][..., None]
    half = power // 2  # in two steps: a single factor may overflow
    scaled = [matrices, values]
    for step in (half, power - half):
        factor = np.ldexp(1.0, step)
        scaled = [scaled[0] * factor[..., None], scaled[1] * factor]
    a, w = scaled
    norm = np.maximum(np.abs(w).max(axis=-1), np.abs(a).max(axis=(-2, -1)))
    norm = np.where(norm == 0, 1, norm)
    defect = np.abs(a @ vectors - vectors * w[..., None, :]).max(axis=(-2, -1)) / norm
    gram = np.swapaxes(vectors.conj(), -2, -1) @ vectors
    return float(defect.max()), float(np.abs(gram - np.eye(gram.shape[-1])).max())


def measure_values(values: NDArray[Any], high: NDArray[Any], low: NDArray[Any]) -> float:
    """Worst error of eigenvalues over each matrix's largest, against double-double references."""
    norm = np.abs(high).max(axis=-1, keepdims=True)
    return float((np.abs((values - high) - low) / np.where(norm == 0, 1, norm)).max())
