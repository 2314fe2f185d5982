"""Wannier90: against the Fortran program's bands, DFT values and TBmodels; broken files."""

from __future__ import annotations

import gzip
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from computed_cases import check_bits, refuse, solve
from source_cases import read_all

import pipeline
from pipeline.choices import Kind
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source
from pipeline.sources.lattice_sum import LatticeSum
from pipeline.sources.tiles import fill_tiles
from pipeline.sources.wannier_files import BOHR, read_hoppings, read_win, spread_images

ROOT = Path(__file__).resolve().parents[2]
SILICON = ROOT / "data" / "wannier90" / "silicon_hr.dat"
MATERIALS = {"Cu_wannierdatasets": "Cu", "CuBr2_n1": "CuBr2", "MoS2_monolayer": "MoS2"}
# eV, from the reference data's README: six decimals or eight digits in the file
ON_PATH = {"hr": 4e-5, "tb": 1e-6}
ON_MESH = {"hr": 5e-5, "tb": 1.2e-6}


def open_wannier(path: Path, **keys: Any) -> Any:
    return open_source(SourceConfig(path=str(path), kind=Kind.wannier90, **keys))


def find(shared: Path, material: str, kind: str) -> Path:
    folder = shared / "data" / "A_wannier" / material
    return next(folder.glob(f"{MATERIALS[material]}_{kind}.dat*"))


@pytest.mark.parametrize("kind", ["hr", "tb"])
@pytest.mark.parametrize("material", MATERIALS)
def test_bands_of_the_fortran_program(shared: Path, material: str, kind: str) -> None:
    """On the path of the `.win` file: its points, distances and labels, too."""
    source = open_wannier(find(shared, material, kind))
    with np.load(find(shared, material, kind).parent / "reference.npz") as file:
        data = dict(file)
    assert source.dims == ("k",) and source.attrs["units"] == "eV"
    k = np.stack([source.coords[f"k{i}"].to_numpy() for i in (1, 2, 3)], axis=-1)
    np.testing.assert_array_equal(k, data["kpath_frac"])
    np.testing.assert_allclose(source.coords["distance"], data["kpath_dist"], atol=1e-6)
    label = source.coords["label"].to_numpy()
    assert label[data["label_index"]].tolist() == data["label_name"].tolist()
    assert (label != "").sum() == len(data["label_index"])
    places = np.stack([source.coords[f"k{x}"].to_numpy() for x in "xyz"], axis=-1)
    lattice = [source.coords.attrs[f"lattice_{i}"] for i in (1, 2, 3)]
    np.testing.assert_allclose(lattice, data["lattice_ang"], atol=1e-7)
    np.testing.assert_allclose(places @ np.transpose(lattice), 2 * np.pi * k, atol=1e-12)
    error = np.abs(solve(read_all(source)) - data["bands_wannier90_eV"]).max()
    assert error < ON_PATH[kind]


@pytest.mark.parametrize("kind", ["hr", "tb"])
@pytest.mark.parametrize("material", MATERIALS)
def test_dft_values_on_the_mesh(shared: Path, material: str, kind: str) -> None:
    """Inside the frozen window."""
    with np.load(find(shared, material, kind).parent / "reference.npz") as file:
        data = dict(file)
    mesh = [len(np.unique(data["kmesh_frac"][:, i].round(9))) for i in range(3)]
    source = open_wannier(find(shared, material, kind), mesh=mesh)
    assert source.shape == tuple(mesh)
    values = solve(read_all(source)).reshape(len(data["kmesh_frac"]), -1)
    reference = data["eig_dft_eV"][:, : values.shape[1]]
    frozen = reference <= data["frozen_max_eV"]
    assert np.abs(values - reference)[frozen].max() < ON_MESH[kind]


def test_minimal_images_of_silicon(shared: Path) -> None:
    """Published by the test-suite of TBmodels; without the images 0.34 eV off."""
    folder = shared / "data" / "A_wannier" / "silicon_tbmodels"
    with np.load(folder / "reference.npz") as data:
        k, reference = data["k_tbmodels_frac"], data["eig_tbmodels_eV"]
    hoppings = read_hoppings(folder / "silicon_hr.dat")
    errors = []
    for one in (spread_images(hoppings, folder / "silicon_wsvec.dat"), hoppings):
        h = np.empty((len(k), 8, 8), complex)
        fill_tiles(np.arange(len(k)), k, LatticeSum(one.cells.astype(float), one.terms), h)
        errors.append(np.abs(solve(h) - reference).max())
    assert errors[0] < 5e-14 and errors[1] > 0.1
    source = open_wannier(folder, mesh=[2, 2, 2])  # finds them by itself
    h = np.empty((1, 8, 8), complex)
    fill_tiles(np.array([1]), np.array([[0, 0, 0.5]]), source._build, h)
    np.testing.assert_array_equal(read_all(source)[0, 0, 1], h[0])


def test_gap_of_mos2(shared: Path, tmp_path: Path) -> None:
    """Seven filled bands, a direct gap of 1.627 eV at K."""
    tree = pipeline.run(
        ["source=wannier90", "spectrum=dos", "cluster=serial"],
        source={"path": str(find(shared, "MoS2_monolayer", "tb"))},
        spectrum={"electrons": 14.0, "width": 0.1},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    assert (tree.status == 0).all()
    assert float(tree.spectrum.gap) == pytest.approx(1.627, abs=5e-4)
    assert str(tree.spectrum.edge_label.sel(edge="direct_gap").item()) == "K"
    report = pipeline.verify(tmp_path / "out.zarr", sample=10)
    assert report.checked == 10 and not report.failed


def test_shipped_silicon_is_the_shipped_stack() -> None:
    """The file in Wannier90's format and the Zarr store are one model, up to a gauge."""
    ours = solve(read_all(open_wannier(SILICON, mesh=[12, 12, 12])))
    with xr.open_zarr(ROOT / "data" / "silicon.zarr", chunks=None) as stored:
        reference = solve(stored["H_mesh"].to_numpy())
    np.testing.assert_allclose(ours, reference, atol=2e-14)


@pytest.mark.parametrize(
    ("mesh", "shift", "kept"),
    [
        ([12, 12, 12], None, (7, 12, 12)),
        ([3, 5, 4], None, (3, 3, 4)),
        ([4, 4, 6], [0, 0.5, 0.5], (4, 4, 3)),
        ([1, 1, 5], [0.5, 0, 0.5], (1, 1, 3)),
    ],
)
def test_time_reversal_halves_the_mesh(
    mesh: list[int], shift: list[float] | None, kept: tuple[int, ...]
) -> None:
    whole = open_wannier(SILICON, mesh=mesh, shift=shift)
    half = open_wannier(SILICON, mesh=mesh, shift=shift, time_reversal=True)
    assert half.shape == kept and half.identity() != whole.identity()
    weight = half.coords["weight"]
    assert weight.attrs["role"] == "weight"
    weights = np.moveaxis(
        np.broadcast_to(
            weight.to_numpy(), (*np.delete(kept, half.dims.index(weight.dims[0])), weight.size)
        ),
        -1,
        half.dims.index(weight.dims[0]),
    )
    assert weights.sum() == np.prod(mesh)
    many = np.sort(
        np.repeat(solve(read_all(half)).reshape(-1, 10), weights.ravel().astype(int), axis=0),
        axis=0,
    )
    np.testing.assert_allclose(
        np.sort(solve(read_all(whole)).reshape(-1, 10), axis=0), many, atol=1e-13
    )


def test_density_of_states_from_half_the_mesh(tmp_path: Path) -> None:
    """Silicon: the gap of the shipped stack, 1.2 eV, and the same density with weights."""
    found = []
    for name, keys in (("whole", {}), ("half", {"time_reversal": True})):
        tree = pipeline.run(
            ["source=wannier90", "spectrum=dos", "cluster=serial"],
            source={"path": str(SILICON), "mesh": [12, 12, 12], **keys},
            spectrum={"electrons": 8.0, "width": 0.1},
            sink={"path": str(tmp_path / f"{name}.zarr")},
        )
        found.append(tree.spectrum)
        assert float(tree.spectrum.gap) == pytest.approx(1.2, abs=5e-5)
        assert tree.spectrum.attrs["total_weight"] == 1728
    whole, half = found
    np.testing.assert_allclose(half.energy, whole.energy, atol=1e-13)
    np.testing.assert_allclose(half.dos, whole.dos, atol=1e-9)


def test_bits_depend_on_the_point_alone(shared: Path) -> None:
    folder = shared / "data" / "A_wannier" / "silicon_tbmodels"
    check_bits(open_wannier(folder, mesh=[5, 7, 9]))
    check_bits(open_wannier(folder, kpath="L 1/2 1/2 1/2 - G 0 0 0 - X 1/2 0 1/2", points=80))


def test_paths(tmp_path: Path) -> None:
    """From text; the same as the `.win` file's; jumps stand still."""
    text = "L 1/2 0.5 .5 - G 0 0 0 - X 1/2 0 1/2 - U 5/8 1/4 5/8 | K 3/8 3/8 3/4 - G 0 0 0"
    source, other = open_wannier(SILICON), open_wannier(SILICON, kpath=text)
    assert source.identity() == other.identity()
    xr.testing.assert_identical(source.coords, other.coords)
    label, distance = source.coords["label"].to_numpy(), source.coords["distance"].to_numpy()
    assert [x for x in label if x] == ["L", "G", "X", "U", "K", "G"]
    jump = int(np.flatnonzero(label == "K")[0])
    assert distance[jump] == distance[jump - 1] and label[jump - 1] == "U"
    assert distance[100] == pytest.approx(np.sqrt(3) * np.pi / 5.431)
    assert len(open_wannier(SILICON, points=10).coords["k1"]) == 40
    dirty = "BeginProjections \n Si: sp3\n Bands_Num_Points : 7 ! !\nBegin Unit_Cell_Cart\nBohr\n"
    dirty += (
        "1d0 0 0\n0 1 0 # \n0 0 1.0\nEnd  Unit_Cell_Cart\nbegin : kpoint_path A 0 0 0 B\n1 0 0\n"
    )
    (tmp_path / "x.win").write_text(dirty + "end kpoint_path")
    stated = read_win(tmp_path / "x.win")
    assert stated.points == 7 and stated.sections[0].names == ("A", "B")
    assert stated.lattice is not None
    np.testing.assert_array_equal(stated.lattice, np.eye(3) * BOHR)


def test_the_sum_over_lattice_vectors() -> None:
    """Against the plain sum: vectors with and without their opposites, any matrices."""
    rng = np.random.default_rng(0)
    for count, n, axes in ((1, 1, 1), (7, 3, 2), (90, 9, 3)):
        cells = np.unique(rng.integers(-2, 3, (count, axes)), axis=0).astype(float)
        terms = rng.standard_normal((2, len(cells), n, n))
        complex_terms = terms[0] + 1j * terms[1]
        k = rng.standard_normal((100, axes))
        plain = np.einsum("kr,rmn->kmn", np.exp(2j * np.pi * k @ cells.T), complex_terms)
        values = np.empty_like(plain)
        fill_tiles(np.arange(100), k, LatticeSum(cells, complex_terms), values)
        np.testing.assert_allclose(values, plain, atol=1e-13)


def test_where_files_are_found(tmp_path: Path) -> None:
    shutil.copy(SILICON, tmp_path / "a_hr.dat")
    (tmp_path / "b_hr.dat.gz").write_bytes(gzip.compress(SILICON.read_bytes()))
    keys: dict[str, Any] = {"mesh": [2, 2, 2]}
    first = open_wannier(tmp_path / "a", **keys)
    second = open_wannier(tmp_path / "b_hr.dat.gz", **keys)
    assert (first.name, second.name) == ("a", "b")
    assert first.identity() == second.identity()  # wherever it lies, however it is packed
    assert "kx" not in first.coords  # hr.dat alone does not know the lattice
    known = open_wannier(tmp_path / "a", lattice=[[0, 1, 1], [1, 0, 1], [1, 1, 0]], **keys)
    assert known.coords["kx"].shape == (2, 2, 2)
    np.testing.assert_array_equal(read_all(pickle.loads(pickle.dumps(first))), read_all(second))
    wannier = {"kind": Kind.wannier90}
    refuse(tmp_path, "several", "a, b", **wannier, **keys)
    refuse(tmp_path / "c", "not there", "a, b", **wannier, **keys)
    refuse("s3://bucket/a", "disk", **wannier, **keys)
    refuse(tmp_path / "a", "source.mesh", ".win", **wannier)
    refuse(tmp_path / "a", "lattice", kpath="A 0 0 0 - B 0 0 1", **wannier)
    refuse(tmp_path / "a", "three counts", mesh=[2, 2], **wannier)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda lines: lines[:-30], "4690 numbers where 4900"),
        (
            lambda lines: [*lines[:50], "    0    0    0    9    5    *******  0.0", *lines[51:]],
            "numbers",
        ),
        (lambda lines: [*lines[:4], *lines[5:6], *lines[4:5], *lines[6:]], "order"),
        (lambda lines: ["x", "y", *lines[2:]], "head"),
    ],
)
def test_broken_files(tmp_path: Path, change: Any, word: str) -> None:
    lines = SILICON.read_text().splitlines()
    (tmp_path / "a_hr.dat").write_text("\n".join(change(lines)))
    refuse(tmp_path / "a", word, "a_hr.dat", kind=Kind.wannier90, mesh=[2, 2, 2])


def test_images_of_another_hamiltonian(tmp_path: Path, shared: Path) -> None:
    shutil.copy(SILICON, tmp_path / "a_hr.dat")
    shutil.copy(
        shared / "data/A_wannier/silicon_tbmodels/silicon_wsvec.dat", tmp_path / "a_wsvec.dat"
    )
    refuse(tmp_path / "a", "does not belong", kind=Kind.wannier90, mesh=[2, 2, 2])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"kpath": "A 0 0 0"}, ["one corner", "LABEL x y z"]),
        ({"kpath": "A 0 0 0 - B 0 0"}, ["2 numbers instead of 3"]),
        ({"kpath": "A 0 0 x - B 0 0 0"}, ["not all numbers"]),
        ({"kpath": "A 0 0 1/0 - B 0 0 0"}, ["not all numbers"]),
        ({"kpath": "A 0 0 0 - A 0 0 0"}, ["no length"]),
        ({"mesh": [2, 2, 2], "kpath": "A 0 0 0 - B 0 0 1"}, ["a mesh or a path"]),
        ({"mesh": [0, 2, 2]}, ["source.mesh", "counts of points"]),
        ({"mesh": [2, 2, 2], "shift": [0.5]}, ["source.shift"]),
        ({"mesh": [2, 2, 2], "shift": [0.1, 0, 0], "time_reversal": True}, ["0 or 0.5"]),
        ({"time_reversal": True}, ["source.mesh"]),
        ({"points": 0}, ["source.points"]),
        ({"lattice": [[1.0, 0], [0, 1]]}, ["three vectors"]),
        ({"lattice": [[1.0, 0, 0]]}, ["source.lattice"]),
        ({"lattice": [[1.0, 0, 0], [2.0, 0, 0], [0, 0, 1.0]]}, ["do not span"]),
        ({"mask": "brain"}, ["source.mask", "wannier90", "source=zarr"]),
        ({"isel": {"k1": 0}}, ["source.isel", "mesh"]),
    ],
)
def test_refusals(keys: dict[str, Any], words: list[str]) -> None:
    refuse(SILICON, *words, kind=Kind.wannier90, **keys)
