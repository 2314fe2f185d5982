"""Bands of four materials, from files of Wannier90, against the programs that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_store import EPS, check_all_ok, run_stack, write_stack
from reference_wannier import Model, read_hr, read_tb, spread_images


class Material(NamedTuple):
    """Folder, name of the files, and how the digits of `SEED_tb.dat` are packed."""

    folder: str
    seed: str
    packed: str


MATERIALS = (
    Material("Cu_wannierdatasets", "Cu", ".gz"),
    Material("CuBr2_n1", "CuBr2", ""),
    Material("MoS2_monolayer", "MoS2", ""),
)
# eV: six decimals or eight digits in the file, against the bands and against the DFT values
ON_PATH = {"hr": 4e-5, "tb": 1e-6}
ON_MESH = {"hr": 5e-5, "tb": 1.2e-6}


@pytest.fixture(params=MATERIALS, ids=lambda material: material.seed)
def material(request: pytest.FixtureRequest) -> Material:
    chosen: Material = request.param
    return chosen


def read_material(shared: Path, material: Material, kind: str) -> tuple[Model, dict[str, Any]]:
    """Read a Hamiltonian and its reference."""
    folder = shared / "data" / "A_wannier" / material.folder
    with np.load(folder / "reference.npz") as file:
        data = dict(file)
    if kind == "hr":
        return read_hr(folder / f"{material.seed}_hr.dat"), data
    return read_tb(folder / f"{material.seed}_tb.dat{material.packed}"), data


def write_path(path: Path, matrices: NDArray[Any], data: dict[str, Any]) -> Path:
    """Write H along the path, the corners marked as a plot would need them."""
    labels = np.full(len(matrices), "", dtype=object)
    labels[data["label_index"]] = data["label_name"]
    k = data["kpath_frac"]
    return write_stack(
        path,
        "hamiltonian",
        matrices,
        ("k", "wannier", "wannier_column"),
        units="eV",
        coords={f"k{i + 1}": ("k", k[:, i]) for i in range(3)}
        | {"distance": ("k", data["kpath_dist"], {"units": "1/angstrom"}), "corner": ("k", labels)},
        chunks=(50, *matrices.shape[1:]),
    )


@pytest.mark.parametrize("kind", ["hr", "tb"])
def test_bands_on_the_path(material: Material, kind: str, shared: Path, tmp_path: Path) -> None:
    model, data = read_material(shared, material, kind)
    store = write_path(tmp_path / "in.zarr", model.sum_hamiltonian(data["kpath_frac"]), data)
    tree = run_stack(store, cluster="threads")
    check_all_ok(tree)
    reference = data["bands_wannier90_eV"]
    assert tree.eigenvalues.shape == reference.shape
    assert tree.eigenvalues.attrs["units"] == "eV"
    assert np.abs(tree.eigenvalues.to_numpy() - reference).max() < ON_PATH[kind]
    np.testing.assert_array_equal(tree.distance, data["kpath_dist"])
    corners = tree.corner.to_numpy()[data["label_index"]]
    assert corners.tolist() == data["label_name"].tolist()


@pytest.mark.parametrize("kind", ["hr", "tb"])
def test_dft_values_on_the_mesh(
    material: Material, kind: str, shared: Path, tmp_path: Path
) -> None:
    """Inside the frozen window, which has no states of the model below it that DFT lacks."""
    model, data = read_material(shared, material, kind)
    k = data["kmesh_frac"]
    matrices = model.sum_hamiltonian(k)
    mesh = tuple(len(np.unique(k[:, i].round(9))) for i in range(3))
    store = write_stack(
        tmp_path / "in.zarr",
        "hamiltonian",
        matrices.reshape(*mesh, *matrices.shape[1:]),
        ("k1", "k2", "k3", "wannier", "wannier_column"),
        units="eV",
        chunks=(2, *mesh[1:], *matrices.shape[1:]),
    )
    tree = run_stack(store)
    check_all_ok(tree)
    values = tree.eigenvalues.to_numpy().reshape(len(k), -1)
    reference = data["eig_dft_eV"][:, : values.shape[1]]
    frozen = reference <= data["frozen_max_eV"]
    assert frozen.any(axis=1).all()
    assert frozen.sum() == (data["eig_dft_eV"] <= data["frozen_max_eV"]).sum()
    assert np.abs(values - reference)[frozen].max() < ON_MESH[kind]


def test_gap_of_mos2(shared: Path, tmp_path: Path) -> None:
    """Seven filled bands of eleven, a direct gap of 1.627 eV at K."""
    model, data = read_material(shared, MATERIALS[2], "tb")
    store = write_path(tmp_path / "in.zarr", model.sum_hamiltonian(data["kpath_frac"]), data)
    spectrum = {"method": "dos", "electrons": 14.0, "width": 0.1}
    gap = run_stack(store, spectrum=spectrum).spectrum
    assert float(gap.direct_gap) == pytest.approx(1.627, abs=5e-4)
    assert float(gap.gap) == pytest.approx(1.627, abs=5e-4)
    assert gap.direct_gap.attrs["units"] == "eV"
    assert str(gap.edge_corner.sel(edge="direct_gap").item()) == "K"


def test_silicon_with_minimal_images(shared: Path, tmp_path: Path) -> None:
    """Published by the test-suite of TBmodels; without the images 0.34 eV off."""
    folder = shared / "data" / "A_wannier" / "silicon_tbmodels"
    with np.load(folder / "reference.npz") as data:
        k, reference = data["k_tbmodels_frac"], data["eig_tbmodels_eV"]
    model = spread_images(read_hr(folder / "silicon_hr.dat"), folder / "silicon_wsvec.dat")
    store = write_stack(
        tmp_path / "in.zarr",
        "hamiltonian",
        model.sum_hamiltonian(k),
        ("k", "wannier", "wannier_column"),
        units="eV",
    )
    tree = run_stack(store)
    check_all_ok(tree)
    error = np.abs(tree.eigenvalues.to_numpy() - reference).max()
    assert error < 2 * 8 * EPS * np.abs(reference).max()
