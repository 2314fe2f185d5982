"""Phonons: dynamical matrices and frequencies of phonopy, with and without dipoles; springs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from computed_cases import check_bits, refuse, solve
from numpy.typing import NDArray
from source_cases import read_all

import pipeline
from pipeline.choices import Kind
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source
from pipeline.sources.tiles import fill_tiles

phonopy = pytest.importorskip("phonopy")
CRYSTALS = ("NaCl", "Al2O3", "ZnO", "Cr", "Si")
POLAR = CRYSTALS[:3]
PHONOPY: dict[str, Any] = {"kind": Kind.phonopy}
# eV/(angstrom^2 amu), of entries up to 1: rounding; where phonopy's sum over dipoles, which is cut
# off around q = 0, is taken outside of the first Brillouin zone, ours is taken inside
ROUNDING, PERIODIC = 2e-14, 1e-7


@pytest.fixture(scope="module")
def folders(shared: Path) -> dict[str, Path]:
    return {name: shared / "data" / "B_phonon" / name for name in CRYSTALS}


def read_reference(folders: dict[str, Path], name: str) -> dict[str, Any]:
    with np.load(folders[name] / "reference.npz") as data:
        return dict(data)


def open_at(path: Path, **keys: Any) -> Any:
    return open_source(SourceConfig(path=str(path), **{**PHONOPY, "mesh": [1, 1, 1], **keys}))


def sum_at(source: Any, q: NDArray[Any]) -> NDArray[Any]:
    """The source's matrices at given points."""
    values = np.empty((len(q), source.n, source.n), source.dtype)
    fill_tiles(np.arange(len(q)), q, source._build, values)
    return values


@pytest.mark.parametrize("name", CRYSTALS)
def test_without_dipoles(folders: dict[str, Path], name: str) -> None:
    """The mesh in its order, and random points, against phonopy's matrices and frequencies."""
    data = read_reference(folders, name)
    mesh, count = data["mesh"].tolist(), int(np.prod(data["mesh"]))
    source = open_at(folders[name], mesh=mesh, dipoles=False)
    assert source.dims == ("q1", "q2", "q3") and source.shape == tuple(mesh)
    matrices = read_all(source).reshape(count, source.n, source.n)
    assert np.abs(matrices - data["dynmat"][:count]).max() < ROUNDING
    random = sum_at(source, data["q_frac"][count:])
    assert np.abs(random - data["dynmat"][count:]).max() < ROUNDING
    factor = source.coords.attrs["frequency_factor_THz"]
    assert factor == pytest.approx(float(data["factor_to_THz"]), rel=1e-12)
    squares = solve(matrices)
    frequencies = np.sign(squares) * np.sqrt(np.abs(squares)) * factor
    reference = data["frequencies_THz"][:count]
    acoustic = np.zeros(reference.shape, bool)
    acoustic[0, np.argsort(np.abs(reference[0]))[:3]] = True  # Gamma: roots of round-off
    assert np.abs(frequencies - reference)[~acoustic].max() < 1e-9
    assert np.abs(squares[acoustic]).max() < 1e-13 * np.abs(squares).max()


@pytest.mark.parametrize("name", POLAR)
def test_with_dipoles(folders: dict[str, Path], name: str) -> None:
    """The non-analytic term at random points, and its limit at Gamma along [100]."""
    data = read_reference(folders, name)
    source = open_at(folders[name], direction=[1, 0, 0])
    q = data["nac_q_frac"]
    error = np.abs(sum_at(source, q) - data["nac_dynmat"]).max(axis=(1, 2))
    inside = (source._build.dipoles._find_home(q) == 0).all(axis=1)
    assert inside.sum() >= 10 and error[inside].max() < ROUNDING
    assert error.max() < PERIODIC
    gamma = read_all(source)[0, 0, 0]
    assert np.abs(gamma - data["nac_gamma_dir100_dynmat"]).max() < ROUNDING
    factor = source.coords.attrs["frequency_factor_THz"]
    frequency = np.sqrt(solve(gamma)[-1]) * factor
    assert frequency == pytest.approx(data["nac_gamma_dir100_frequencies_THz"][-1], abs=1e-9)
    # far away it is the same up to the phases of the atoms' positions
    there, shift = sum_at(source, q), np.array([2, -1, 3])
    np.testing.assert_allclose(solve(sum_at(source, q + shift)), solve(there), atol=1e-12)
    other = open_at(folders[name])
    assert other.identity() != source.identity()
    assert np.abs(read_all(other)[0, 0, 0] - data["dynmat"][0]).max() < 1e-7


@pytest.mark.parametrize("name", ["NaCl", "Si"])
def test_a_run_along_a_path(folders: dict[str, Path], name: str, tmp_path: Path) -> None:
    path = "G 0 0 0 - X 1/2 1/2 0 | K 3/8 3/4 3/8 - G 0 0 0 - L 1/2 1/2 1/2"
    tree = pipeline.run(
        ["source=phonopy", "solve.vectors=true", "cluster=serial"],
        source={"path": str(folders[name]), "kpath": path, "points": 30},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    assert (tree.status == 0).all() and tree.eigenvectors.dims == ("q", "motion", "mode")
    first, second = {"NaCl": ("Na1", "Cl2"), "Si": ("Si1", "Si2")}[name]
    symbols = [f"{atom} {x}" for atom in (first, second) for x in "xyz"]
    assert tree.motion.to_numpy().tolist() == symbols
    assert tree.eigenvalues.attrs["units"] == "eV/(angstrom^2 amu)"
    assert [x for x in tree.label.to_numpy() if x] == ["G", "X", "K", "G", "L"]
    assert not pipeline.verify(tmp_path / "out.zarr", sample=20).failed


def test_time_reversal_and_bits(folders: dict[str, Path]) -> None:
    check_bits(open_at(folders["ZnO"], mesh=[4, 5, 3]))
    half = open_at(folders["NaCl"], mesh=[5, 4, 4], time_reversal=True)
    whole = open_at(folders["NaCl"], mesh=[5, 4, 4])
    assert half.shape == (3, 4, 4) and half.coords["weight"].to_numpy().tolist() == [1, 2, 2]
    for one, other in (([1, 1, 3], [4, 3, 1]), ([2, 0, 2], [3, 0, 2])):
        np.testing.assert_allclose(
            solve(read_all(half)[tuple(one)]), solve(read_all(whole)[tuple(other)]), atol=1e-14
        )


def test_identity_is_the_content(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["NaCl"], tmp_path / "moved")
    first = open_at(folders["NaCl"]).identity()
    assert open_at(tmp_path / "moved").identity() == first
    assert open_at(tmp_path / "moved" / "phonopy_disp.yaml").identity() == first
    born = tmp_path / "moved" / "BORN"
    born.write_text(born.read_text().replace("2.43533967", "2.43533968"))
    assert open_at(tmp_path / "moved").identity() != first


def test_force_constants_from_a_file(folders: dict[str, Path], tmp_path: Path) -> None:
    """FORCE_CONSTANTS instead of forces, compact and whole."""
    phonon = phonopy.load(
        folders["Si"] / "phonopy_params.yaml", is_compact_fc=False, log_level=0, is_nac=False
    )
    expected = read_all(open_at(folders["Si"], mesh=[2, 2, 2]))
    from phonopy.file_IO import write_FORCE_CONSTANTS

    phonon.save(tmp_path / "phonopy.yaml", settings={"force_sets": False, "displacements": False})
    for rows in (phonon.force_constants, phonon.force_constants[phonon.primitive.p2s_map]):
        maps = {} if len(rows) > 2 else {"p2s_map": phonon.primitive.p2s_map}
        write_FORCE_CONSTANTS(rows, filename=tmp_path / "FORCE_CONSTANTS", **maps)
        found = read_all(open_at(tmp_path, mesh=[2, 2, 2]))
        assert np.abs(found - expected).max() < 1e-13


def test_refusals(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(tmp_path, "phonopy_params.yaml", **PHONOPY, mesh=[1, 1, 1])
    refuse(folders["NaCl"], "source.mesh", "source.kpath", **PHONOPY)
    refuse(
        folders["Si"], "source.direction", "BORN", direction=[1, 0, 0], mesh=[1, 1, 1], **PHONOPY
    )
    refuse(folders["Si"], "not all 0", direction=[0, 0, 0], mesh=[1, 1, 1], **PHONOPY)
    refuse(folders["Si"], "three counts", mesh=[2, 2], **PHONOPY)
    refuse(folders["Si"], "source.lattice", lattice=[[1.0]], **PHONOPY)
    shutil.copy(folders["NaCl"] / "phonopy_disp.yaml", tmp_path)
    monkeypatch.chdir(folders["NaCl"])  # what lies where it is called is not looked at
    refuse(tmp_path, "no forces", "FORCE_SETS", mesh=[1, 1, 1], **PHONOPY)
    (tmp_path / "FORCE_SETS").write_text("64\n2\n\n1\n")
    refuse(tmp_path, "phonopy cannot read", "FORCE_SETS", mesh=[1, 1, 1], **PHONOPY)


def test_shipped_springs() -> None:
    """D(q) = k / m sum_n n n^T (1 - cos q.r_n) over the twelve neighbours."""
    folder = Path(__file__).resolve().parents[2] / "data" / "springs"
    source = open_at(folder, mesh=[5, 4, 6])
    q = np.stack(np.meshgrid(*[np.arange(n) / n for n in (5, 4, 6)], indexing="ij"), axis=-1)
    expected = np.zeros((5, 4, 6, 3, 3))
    for cell in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 0), (0, 1, -1), (-1, 0, 1)]:
        way = np.array(cell) @ (1 - np.eye(3)) / np.sqrt(2)
        turn = 1 - np.cos(2 * np.pi * q @ np.array(cell))
        expected += 2 * 0.07 / 39.948 * np.outer(way, way) * turn[..., None, None]
    np.testing.assert_allclose(read_all(source), expected, atol=1e-15)


def test_without_phonopy(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonopy", None)
    refuse(folders["Si"], "eigenstream[phonopy]", mesh=[1, 1, 1], **PHONOPY)
