"""Stores to run on, and runs in this process or another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from pipeline.config import Config, compose
from pipeline.run import Outcome, run


def write_stack(path: Path, matrices: np.ndarray, chunks: tuple[int, ...], **extra: Any) -> Path:
    """Write a stack with labelled batch dimensions as a Zarr v3 group."""
    dims = [f"k{i}" for i in range(matrices.ndim - 2)]
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.create_array(
        "H",
        data=matrices,
        chunks=(*chunks, *matrices.shape[-2:]),
        dimension_names=[*dims, "orbital", "orbital_column"],
        attributes={"units": "eV", "long_name": "Hamiltonian"},
        **extra,
    )
    for dim, size in zip(dims, matrices.shape, strict=False):
        group.create_array(dim, data=np.arange(size) / 8, dimension_names=[dim])
    return path


def draw_hermitian(rng: np.random.Generator, *shape: int, dtype: str = "c16") -> np.ndarray:
    """Draw random Hermitian matrices; the last extent is n."""
    a = rng.standard_normal((*shape, shape[-1]))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(a.shape)
    return ((a + a.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def configure(source: Path, *overrides: str, **nested: Any) -> Config:
    """Compose a config for a store."""
    return compose([f"source.path={source}", "cluster=serial", *overrides], nested=nested)


def run_here(source: Path, *overrides: str, **nested: Any) -> Outcome:
    """Run in this process."""
    return run(configure(source, *overrides, **nested))


def start_cli(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """Start the program as a user would."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_results(path: Path) -> dict[str, np.ndarray]:
    """Read every decoded array of an output outside run/."""
    with xr.open_datatree(path, engine="zarr", consolidated=True) as tree:
        return {
            f"{node.path}/{name}": variable.values
            for node in tree.subtree
            if not node.path.startswith("/run")
            for name, variable in node.dataset.variables.items()
        }


def assert_equal_results(a: Path, b: Path) -> None:
    """Two results are equal when all decoded arrays outside run/ are, bit for bit."""
    first, second = read_results(a), read_results(b)
    assert first.keys() == second.keys()
    for name, values in first.items():
        other = second[name]
        assert values.dtype == other.dtype, name
        same = values.tobytes() == other.tobytes() if values.dtype.kind != "T" else None
        assert same if same is not None else (values == other).all(), name
