"""Maps of tensors against dipy's, frequencies against phonopy's; lazy, and NaN where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pipeline
from pipeline.errors import Misuse
from pipeline.stages.phonons import derive_frequencies
from pipeline.stages.tensors import derive_tensors


def make_result(values: Any, order: list[int], **others: Any) -> xr.Dataset:
    """A result as `run` stores it."""
    data = {"eigenvalues": (("voxel", "mode"), values, {"units": "mm^2/s"})} | others
    return xr.Dataset(data, {"mode": order})


def test_maps_of_a_run(shared: Path, tmp_path: Path) -> None:
    with np.load(shared / "data" / "C_tensors" / "dti_small_64D.npz") as file:
        data = dict(file)
    i, j = np.tril_indices(3)
    np.save(tmp_path / "d.npy", data["tensors"][..., i, j])
    tree = pipeline.run(
        ["source=tensors", "source.packing=dipy", "cluster=serial", "solve.vectors=true"],
        source={"path": str(tmp_path / "d.npy"), "units": "mm^2/s"},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    maps = derive_tensors(tree.to_dataset())
    np.testing.assert_allclose(maps.fa, data["fa"], atol=1e-12)
    np.testing.assert_allclose(maps.md, data["md"], rtol=1e-12)
    assert maps.md.attrs["units"] == "mm^2/s" and maps.fa.attrs["units"] == "1"
    alone = data["evals_desc"][..., 0] - data["evals_desc"][..., 1] > 1e-6
    overlap = np.abs((maps.direction.to_numpy() * data["evecs"][..., 0]).sum(-1))
    np.testing.assert_allclose(overlap[alone], 1, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(maps.rgb, axis=-1), maps.fa, atol=1e-12)
    lazy = derive_tensors(xr.open_zarr(tmp_path / "out.zarr", chunks={}))
    assert lazy.fa.chunks is not None
    xr.testing.assert_allclose(lazy.compute(), maps)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_shapes(order: list[int]) -> None:
    """A needle, a disk, a ball, nothing, what was not solved, and one with a negative value."""
    nan = np.nan
    descending = np.array(
        [[1, 0, 0], [1, 1, 0], [2, 2, 2], [0, 0, 0], [nan] * 3, [3, 1, -1]], np.float64
    )
    values = descending if order[0] == 2 else descending[:, ::-1]
    maps = derive_tensors(make_result(values, order))
    np.testing.assert_allclose(maps.fa[:5], [1, np.sqrt(0.5), 0, 0, nan], atol=1e-15)
    np.testing.assert_allclose(maps["mode"][:2], [1, -1], atol=1e-14)
    assert np.isnan(maps["mode"][2:5]).all()
    np.testing.assert_array_equal(maps.linearity[:3], [1, 0, 0])
    np.testing.assert_array_equal(maps.planarity[:3], [0, 1, 0])
    np.testing.assert_array_equal(maps.sphericity[:3], [0, 0, 1])
    np.testing.assert_array_equal(maps.negative, [0, 0, 0, 0, 0, 1])
    assert maps.rd[5] == 0 and derive_tensors(make_result(values, order), clip=True).rd[5] == 0.5
    assert "direction" not in maps


def test_frequencies(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("phonopy")
    folder = shared / "data" / "B_phonon" / "Si"
    with np.load(folder / "reference.npz") as data:
        mesh, reference = data["mesh"].tolist(), data["frequencies_THz"]
    tree = pipeline.run(
        ["source=phonopy", "cluster=serial"],
        source={"path": str(folder), "mesh": mesh},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    frequency = derive_frequencies(tree.to_dataset())
    assert frequency.attrs["units"] == "THz" and frequency.dims == ("q1", "q2", "q3", "mode")
    found = frequency.to_numpy().reshape(-1, 6)
    assert np.abs(found[1:] - reference[1 : len(found)]).max() < 1e-9
    assert np.abs(found[0, 3:] - reference[0, 3:]).max() < 1e-9
    below = xr.Dataset({"eigenvalues": ("mode", [-4.0, 9.0])}, attrs={"frequency_factor_THz": 2.0})
    assert derive_frequencies(below).to_numpy().tolist() == [-4, 6]


def test_refusals() -> None:
    with pytest.raises(Misuse, match="all three"):
        derive_tensors(make_result(np.zeros((2, 2)), [2, 1]))
    with pytest.raises(Misuse, match="no eigenvalues"):
        derive_tensors(xr.Dataset())
    with pytest.raises(Misuse, match="phonons"):
        derive_frequencies(make_result(np.zeros((2, 3)), [0, 1, 2]))
