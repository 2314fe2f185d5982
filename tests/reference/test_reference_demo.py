"""The experiments that come with the program: band edges and density of states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pipeline

EDGE = 1e-3  # eV
STATES = 10
# P. Vogl, H. P. Hjalmarson, J. D. Dow, J. Phys. Chem. Solids 44, 365 (1983); s* on s* without
# a partner at Gamma keeps its own energy
AT_GAMMA = {
    "spectra": [-12.5, 0, 0, 0, 3.43, 3.43, 3.43, 4.10, 6.685, 6.685],
    "gaas": [-12.55, 0, 0, 0, 1.55, 4.71, 4.71, 4.71, 6.739, 8.591],
}


@pytest.fixture(scope="module", params=["spectra", "gaas"])
def experiment(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def mesh(experiment: str, tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """The main job, as it comes."""
    out = tmp_path_factory.mktemp(experiment) / "out.zarr"
    return pipeline.run([f"+experiment={experiment}"], sink={"path": str(out)})


@pytest.fixture(scope="module")
def path(experiment: str, tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """The same along L-Gamma-X."""
    out = tmp_path_factory.mktemp(f"{experiment}_path") / "out.zarr"
    overrides = [f"+experiment={experiment}", "source.variable=H_path"]
    return pipeline.run(overrides, sink={"path": str(out)})


def find_edge(spectrum: xr.DataTree, edge: str, *names: str) -> list[float]:
    """Read where a band edge lies."""
    return [float(spectrum[f"edge_{name}"].sel(edge=edge)) for name in names]


def test_energies_at_gamma(experiment: str, mesh: xr.DataTree, path: xr.DataTree) -> None:
    on_path = path.eigenvalues.isel(path=int(np.flatnonzero(path.label == "Γ")[0]))
    for found in (mesh.eigenvalues.sel(k1=0, k2=0, k3=0), on_path):
        np.testing.assert_allclose(found, AT_GAMMA[experiment], atol=EDGE)


def test_edges_on_the_mesh(experiment: str, mesh: xr.DataTree) -> None:
    assert (mesh.status == 0).all() and mesh.status.shape == (12, 12, 12)
    spectrum = mesh.spectrum
    assert float(spectrum.valence_max) == pytest.approx(0, abs=EDGE)
    assert find_edge(spectrum, "valence_max", "kx", "ky", "kz") == [0, 0, 0]
    if experiment == "spectra":
        assert float(spectrum.conduction_min) == pytest.approx(1.200, abs=EDGE)
        where = np.abs(find_edge(spectrum, "conduction_min", "kx", "ky", "kz"))
        np.testing.assert_allclose(np.sort(where), [0, 0, 2 / 3], atol=1e-12)
    else:
        assert float(spectrum.direct_gap) == pytest.approx(1.55, abs=EDGE)
        assert find_edge(spectrum, "direct_gap", "kx", "ky", "kz") == [0, 0, 0]
    assert spectrum.gap.attrs["units"] == "eV"


def test_edges_on_the_path(experiment: str, path: xr.DataTree) -> None:
    spectrum = path.spectrum
    assert float(spectrum.valence_max) == pytest.approx(0, abs=EDGE)
    k = ("kx_path", "ky_path", "kz_path")
    if experiment == "spectra":
        assert float(spectrum.conduction_min) == pytest.approx(1.171, abs=EDGE)
        assert find_edge(spectrum, "conduction_min", *k) == pytest.approx([0.73, 0, 0])
    else:
        assert float(spectrum.direct_gap) == pytest.approx(1.55, abs=EDGE)
        assert find_edge(spectrum, "direct_gap", *k) == [0, 0, 0]


def test_density_of_states(mesh: xr.DataTree, path: xr.DataTree) -> None:
    """It holds ten states a matrix, and is the sum of Gaussians over all eigenvalues."""
    for tree in (mesh, path):
        check_density(tree)


def check_density(tree: xr.DataTree) -> None:
    """Integrate the density, and sum it anew on a part of its grid."""
    dos, energy = tree.spectrum.dos.to_numpy(), tree.spectrum.energy.to_numpy()
    assert tree.spectrum.dos.attrs["units"] == "1/eV"
    assert np.trapezoid(dos, energy) == pytest.approx(STATES, abs=1e-6)
    assert float(tree.spectrum.idos[-1]) == pytest.approx(STATES, abs=1e-6)
    width = float(tree.spectrum.broadening)
    values = tree.eigenvalues.to_numpy().ravel()
    assert energy[0] <= values.min() - 8 * width and values.max() + 8 * width <= energy[-1]
    assert np.diff(energy).max() <= width / 4 * (1 + 1e-9)
    some: Any = slice(None, None, 20)
    x = (energy[some, None] - values) / width
    height = np.exp(-(x**2) / 2).sum(1) / (width * np.sqrt(2 * np.pi)) / tree.status.size
    np.testing.assert_allclose(dos[some], height, atol=1e-9)


def test_states_below_the_gap(mesh: xr.DataTree) -> None:
    """Four valence bands lie below the Fermi level, which lies in the gap."""
    spectrum = mesh.spectrum
    level = float(spectrum.fermi_level)
    assert float(spectrum.valence_max) < level < float(spectrum.conduction_min)
    assert float(spectrum.idos.interp(energy=level)) == pytest.approx(4, abs=1e-3)
    assert ((mesh.eigenvalues < level).sum("band") == 4).all()


def test_where_it_came_from(experiment: str, mesh: xr.DataTree) -> None:
    material = {"spectra": "silicon", "gaas": "gaas"}[experiment]
    stored = mesh.run.attrs["config"]
    assert Path(stored["source"]["path"]).name == f"{material}.zarr"
    assert stored["source"]["variable"] == "H_mesh"
