"""Band filling: edges, gaps and Fermi levels, and where they occur."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import xarray as xr
from spectrum_cases import compute, read_example

from pipeline.errors import Misuse


def solve(name: str, variable: str) -> tuple[Any, dict[str, Any]]:
    """Eigenvalues of an example and its coordinates, with `k1` the path's dimension."""
    array = read_example(name)[variable].rename({"path": "k1"} if variable == "H_path" else {})
    kept = [c for c in array.coords if "orbital" not in str(c)]
    return np.linalg.eigvalsh(array), {str(c): array.coords[c].variable for c in kept}


def edge(spectrum: xr.Dataset, name: str, *coords: str) -> list[Any]:
    at = spectrum.sel(edge=name)
    return [at[f"edge_{coord}"].item() for coord in coords]


def test_silicon_mesh() -> None:
    values, coords = solve("silicon", "H_mesh")
    got = compute(values, 5, 7, 12, coords=coords, width=0.1, electrons=8)
    assert got.valence_max == pytest.approx(0, abs=1e-9)
    assert got.conduction_min == pytest.approx(1.200, abs=5e-4)
    assert got.gap == got.conduction_min - got.valence_max
    assert got.fermi_level == pytest.approx(0.600, abs=5e-4)
    assert got.direct_gap == pytest.approx(3.079, abs=5e-4)
    assert edge(got, "valence_max", "k1", "k2", "k3", "kx", "ky", "kz") == [0] * 6
    # One of the equivalent minima next to 0.73 of Gamma-X, the first in C order.
    k = np.abs(edge(got, "conduction_min", "kx", "ky", "kz"))
    np.testing.assert_allclose(sorted(k), [0, 0, 2 / 3])
    assert got.fermi_level.attrs["units"] == got.gap.attrs["units"] == "eV"
    assert got.edge_kx.attrs == coords["kx"].attrs
    lowest = int(values[..., 4].argmin())
    assert edge(got, "conduction_min", "k1", "k2", "k3") == [
        coords[f"k{i + 1}"].values[at] for i, at in enumerate(np.unravel_index(lowest, (12,) * 3))
    ]


def test_silicon_path() -> None:
    values, coords = solve("silicon", "H_path")
    got = compute(values, 40, coords=coords, width=0.1, electrons=8)
    assert got.valence_max == pytest.approx(0, abs=1e-9)
    assert got.conduction_min == pytest.approx(1.171, abs=5e-4)
    assert edge(got, "conduction_min", "k1", "kx_path", "label") == [123, 0.73, ""]
    assert edge(got, "valence_max", "k1", "kx_path", "label") == [50, 0, "Γ"]


def test_gaas_mesh() -> None:
    values, coords = solve("gaas", "H_mesh")
    got = compute(values, 5, 12, 12, coords=coords, width=0.1, electrons=8)
    assert got.gap == pytest.approx(1.55, abs=5e-4)
    assert got.direct_gap == pytest.approx(1.55, abs=5e-4)
    for name in got.edge.values:
        assert edge(got, name, "kx", "ky", "kz") == [0, 0, 0]
    np.testing.assert_array_equal(got.band_max, values.max(axis=(0, 1, 2)))
    np.testing.assert_array_equal(got.band_min, values.min(axis=(0, 1, 2)))


def test_descending_order_gives_the_same() -> None:
    values, coords = solve("silicon", "H_path")
    options = {"coords": coords, "width": 0.1, "electrons": 8}
    up = compute(values, 40, **options)
    down = compute(values[:, ::-1], 40, bands=np.arange(10)[::-1], **options)
    assert down.band.values.tolist() == list(range(10))[::-1]
    xr.testing.assert_identical(up, down.sortby("band"))


def test_metal() -> None:
    """A cosine band, half filled: the level is at its centre, by symmetry."""
    k = np.arange(200) * 2 * np.pi / 200
    values = np.stack([-np.cos(k), 5 + 0 * k], axis=-1)
    got = compute(values, 30, width=0.05, electrons=1)
    assert got.fermi_level == pytest.approx(0, abs=1e-6)
    assert got.gap == 0 and np.isnan([got.valence_max, got.conduction_min, got.direct_gap]).all()
    assert "edge" not in got.dims
    assert got.idos.interp(energy=0).item() == pytest.approx(0.5, abs=1e-4)
    # The same with one electron to a state is half a band more: full, an insulator.
    full = compute(values, 30, width=0.05, electrons=1, degeneracy=1)
    assert full.valence_max == 1 and full.conduction_min == 5 and full.fermi_level == 3


def test_overlapping_bands_are_a_metal() -> None:
    values = np.array([[0.0, 2.0], [1.0, 3.0], [2.5, 4.0]])
    got = compute(values, width=0.01, electrons=2)
    assert got.gap == 0 and np.isnan(got.valence_max)
    assert 2 <= got.fermi_level <= 2.5
    assert got.direct_gap == 1.5 and got.edge_k1.sel(edge="direct_gap") == 2
    assert got.edge.values.tolist() == ["direct_gap"]


def test_edges_of_equal_values_are_the_first() -> None:
    values = np.tile([0.0, 1.0], (3, 4, 1))
    got = compute(values, 2, 3, width=0.1, electrons=2)
    assert got.edge_k1.values.tolist() == got.edge_k2.values.tolist() == [0, 0, 0]


def test_single_matrix() -> None:
    got = compute(np.array([0.0, 1.0]), width=0.1, electrons=2)
    assert got.gap == 1 and got.fermi_level == 0.5 and "edge" not in got.dims


@pytest.mark.parametrize(
    ("electrons", "degeneracy", "bands", "said"),
    [
        (0, 2, None, "more than 0 and fewer than 20"),
        (20, 2, None, "more than 0 and fewer than 20"),
        (21, 2, None, "fewer than 20"),
        (10, 1, None, "fewer than 10"),
        (8, 2, [4, 5], "band 3 and 4, but only bands 4 to 5"),
        (8, 2, [2, 3], "band 3 and 4, but only bands 2 to 3"),
        (7, 2, [4, 5], "3.5 bands and needs band 3, but only"),
    ],
)
def test_impossible_fillings(electrons: float, degeneracy: int, bands: Any, said: str) -> None:
    m = len(bands or range(10))
    values = np.sort(np.random.default_rng(1).normal(size=(6, m)))
    with pytest.raises(Misuse, match=said) as error:
        filling = {"electrons": electrons, "degeneracy": degeneracy}
        compute(values, bands=bands, n=10, width=0.1, **filling)
    assert "spectrum.electrons" in str(error.value)


def test_subset_of_bands() -> None:
    values, coords = solve("silicon", "H_mesh")
    options = {"coords": coords, "width": 0.1, "electrons": 8}
    whole = compute(values, 4, 12, 12, **options)
    part = compute(values[..., 3:5], 4, 12, 12, bands=[3, 4], n=10, **options)
    for name in ("gap", "valence_max", "fermi_level", "direct_gap", "edge_kx"):
        xr.testing.assert_identical(part[name], whole[name])


def test_subset_of_a_metal(caplog: pytest.LogCaptureFixture) -> None:
    k = np.arange(200) * 2 * np.pi / 200
    values = np.stack([0 * k - 9, 0 * k - 5, -np.cos(k), 0 * k + 5, 0 * k + 9], axis=-1)
    options = {"n": 5, "width": 0.05, "electrons": 4.6}
    whole = compute(values, **options)
    assert -1 < whole.fermi_level < 0
    # Bands 0 and 4 lie beyond bands 1 and 3, which do not cross the level.
    part = compute(values[:, 1:4], bands=[1, 2, 3], **options)
    assert part.fermi_level == pytest.approx(whole.fermi_level.item(), abs=1e-9)
    # Next to band 2 alone, bands 1 and 3 might be partly filled for all one knows.
    with caplog.at_level(logging.WARNING):
        alone = compute(values[:, 2:3], bands=[2], **options)
    assert np.isnan(alone.fermi_level) and "solve.subset" in caplog.text


def test_level_outside_of_the_range(caplog: pytest.LogCaptureFixture) -> None:
    values = np.linspace(0, 1, 50)[:, None]
    with caplog.at_level(logging.WARNING):
        got = compute(values, width=0.01, electrons=1, range=[0.8, 1.0])
    assert np.isnan(got.fermi_level) and "spectrum.range" in caplog.text


def test_unusable_matrices_do_not_make_edges() -> None:
    values = np.array([[0.0, 1.0], [0.9, 1.1], [np.nan, np.nan]])
    got = compute(values, status=np.array([0, 5, 2], np.uint8), width=0.1, electrons=2)
    assert got.gap == 1 and got.attrs["matrices_used"] == 1
    assert got.attrs["matrices_left_out"] == 2
