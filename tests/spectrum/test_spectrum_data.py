"""The committed example stores against the published band structure."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import xarray as xr
from spectrum_cases import ROOT, read_example

MATERIALS = ["silicon", "gaas"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_data", ROOT / "scripts/make_data.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", MATERIALS)
def test_data_regenerates(name: str, script: ModuleType, tmp_path: Path) -> None:
    script.write_store(script.build_dataset(name), tmp_path / "again.zarr")
    again = xr.open_zarr(tmp_path / "again.zarr", chunks=None).load()
    xr.testing.assert_identical(again, read_example(name))


@pytest.mark.parametrize("name", MATERIALS)
def test_data_is_small(name: str) -> None:
    files = [f for f in (ROOT / f"data/{name}.zarr").rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) < 4 << 20
    assert len(files) < 40


@pytest.mark.parametrize("name", MATERIALS)
def test_data_is_hermitian_and_labelled(name: str) -> None:
    data = read_example(name)
    for variable in (data.H_mesh, data.H_path):
        assert variable.dtype == np.complex128 and variable.attrs["units"] == "eV"
        np.testing.assert_array_equal(variable, variable.values.conj().swapaxes(-1, -2))
    assert data.H_mesh.shape == (12, 12, 12, 10, 10)
    assert data.H_mesh.dims == ("k1", "k2", "k3", "orbital", "orbital_column")
    assert data.orbital.values.tolist()[:6] == ["s_a", "px_a", "py_a", "pz_a", "s*_a", "s_c"]
    corners = data.label.values
    assert {i: corners[i] for i in np.flatnonzero(corners != "")} == {0: "L", 50: "Γ", 150: "X"}
    k = np.stack([data.kx_path, data.ky_path, data.kz_path], axis=-1)
    np.testing.assert_allclose(k[[0, 50, 150]], [[0.5] * 3, [0] * 3, [1, 0, 0]])
    steps = np.linalg.norm(np.diff(k, axis=0), axis=-1)
    np.testing.assert_allclose(data.distance, [0, *np.cumsum(steps)], rtol=1e-13)


def test_roots_of_unity(script: ModuleType) -> None:
    roots = script.roots_of_unity(48)
    np.testing.assert_allclose(roots, np.exp(2j * np.pi * np.arange(48) / 48), atol=2e-15)
    assert roots[0] == 1 and roots[12] == 1j and roots[24] == -1 and roots[36] == -1j
    assert roots[4].imag == 0.5  # exactly, which sin(pi / 6) of the C library is not


def test_silicon_bands() -> None:
    data = read_example("silicon")
    mesh, path = np.linalg.eigvalsh(data.H_mesh), np.linalg.eigvalsh(data.H_path)
    gamma = [-12.5, 0, 0, 0, 3.43, 3.43, 3.43, 4.10, 6.685, 6.685]
    np.testing.assert_allclose(mesh[0, 0, 0], gamma, atol=1e-12)
    np.testing.assert_allclose(path[50], gamma, atol=1e-12)
    assert mesh[..., 3].max() == pytest.approx(0, abs=1e-12)
    assert mesh[..., 4].min() == pytest.approx(1.200, abs=5e-4)
    assert path[:, 4].min() == pytest.approx(1.171, abs=5e-4)
    assert data.kx_path[path[:, 4].argmin()] == 0.73


def test_gaas_bands() -> None:
    data = read_example("gaas")
    mesh = np.linalg.eigvalsh(data.H_mesh)
    gamma = [-12.55, 0, 0, 0, 1.55, 4.71, 4.71, 4.71, 6.739, 8.591]
    np.testing.assert_allclose(mesh[0, 0, 0], gamma, atol=5e-4)
    assert (mesh[..., 4] - mesh[..., 3]).min() == pytest.approx(1.55, abs=5e-4)


@pytest.mark.parametrize("name", MATERIALS)
def test_mesh_and_path_agree(name: str) -> None:
    """Both hold X: fractions (0, 1/2, 1/2) on the mesh, Cartesian (1, 0, 0)."""
    data = read_example(name)
    at = data.H_mesh[0, 6, 6]
    assert (float(at.kx), float(at.ky), float(at.kz)) == (1, 0, 0)
    np.testing.assert_allclose(at, data.H_path[150], atol=1e-12)
