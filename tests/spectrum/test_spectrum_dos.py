"""Density of states: against direct evaluation, its integral, and its independence of blocks."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc
from spectrum_cases import compute, read_example

from pipeline.errors import Misuse
from pipeline.stages.spectrum.dataset import invert_units
from pipeline.stages.spectrum.dos import NODES
from pipeline.stages.spectrum.survey import USABLE
from pipeline.stages.spectrum.weights import choose_exponent, weigh

RNG = np.random.default_rng(3)


def evaluate(energy: Any, values: Any, weights: Any, width: float) -> tuple[Any, Any]:
    """DOS and integrated DOS by their definition."""
    x = (energy[:, None] - values.ravel()) / width
    share = np.repeat(np.ravel(weights), values.shape[-1]) / np.sum(weights)
    dos = (share * np.exp(-x * x / 2)).sum(axis=-1) / (width * math.sqrt(2 * math.pi))
    return dos, (share * erfc(-x / math.sqrt(2)) / 2).sum(axis=-1)


@pytest.fixture(scope="module")
def silicon() -> Any:
    return np.linalg.eigvalsh(read_example("silicon").H_mesh)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.2])
def test_integrates_to_the_number_of_states(silicon: Any, width: float) -> None:
    got = compute(silicon, 3, 12, 12, width=width)
    assert got.dos.integrate("energy").item() == pytest.approx(10, abs=1e-9)
    assert got.idos[-1].item() == pytest.approx(10, abs=1e-12) and abs(got.idos[0]) < 1e-12
    assert (got.dos >= 0).all() and (got.idos.diff("energy") >= -1e-12).all()
    assert got.dos.attrs["units"] == "1/eV" and got.energy.attrs["units"] == "eV"
    assert got.broadening == width and got.broadening.attrs["units"] == "eV"
    assert got.attrs["matrices_used"] == 1728 and got.attrs["total_weight"] == 1728


@pytest.mark.parametrize("width", [0.003, 0.1, 3.0, 1e3])
def test_equals_direct_evaluation(width: float) -> None:
    values = np.sort(RNG.normal(size=(40, 5)) * 2)
    weights = RNG.uniform(0, 3, 40)
    coords = {"w": ("k1", weights, {"role": "weight"})}
    got = compute(values, 7, coords=coords, width=width)
    dos, idos = evaluate(got.energy.values, values, weights, width)
    np.testing.assert_allclose(got.dos, dos, rtol=0, atol=1e-10 * 5 / width)
    np.testing.assert_allclose(got.idos, idos, rtol=0, atol=1e-9)
    assert got.energy[0] == values.min() - 8 * width
    assert got.energy[-1] == values.max() + 8 * width
    assert got.energy.diff("energy").max() <= width / 4 * (1 + 1e-9)
    assert got.attrs["total_weight"] == pytest.approx(weights.sum(), rel=1e-12)


def test_one_line_is_a_gaussian() -> None:
    got = compute(np.array([[2.0]]), width=0.5)
    x = (got.energy - 2) / 0.5
    np.testing.assert_allclose(
        got.dos, np.exp(-(x**2) / 2) / (0.5 * math.sqrt(2 * math.pi)), atol=1e-10
    )


@pytest.mark.parametrize("ends", [[-1.0, 0.5], [-40.0, 40.0], [20.0, 30.0], [-30.0, -20.0]])
def test_range_and_points(ends: list[float]) -> None:
    """A narrow range still counts what lies below it; a wide or empty one is honoured."""
    values = np.sort(RNG.normal(size=(50, 3)))
    got = compute(values, 9, width=0.2, range=ends, points=301)
    dos, idos = evaluate(got.energy.values, values, np.ones(50), 0.2)
    np.testing.assert_allclose(got.dos, dos, atol=1e-9)
    np.testing.assert_allclose(got.idos, idos, atol=1e-9)
    assert got.energy.size == 301 and [*got.energy[[0, -1]].values] == ends


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.tuples(*[st.integers(1, 7)] * 2),
    weighted=st.booleans(),
    bands=st.integers(1, 4),
    single=st.booleans(),
)
def test_blocks_do_not_matter(
    seed: int, sizes: tuple[int, int], weighted: bool, bands: int, single: bool
) -> None:
    """However the stack is cut: the same bits."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.normal(size=(7, 6, bands)).astype("f4" if single else "f8"))
    values[rng.random((7, 6)) < 0.1] = np.nan
    status = rng.choice([0, 0, 0, 1, 9, 5, 2, 6, 7], (7, 6)).astype(np.uint8)
    coords = {"w": (("k2",), rng.uniform(size=6), {"role": "weight"})} if weighted else {}
    options: dict[str, Any] = {"status": status, "coords": coords, "width": 0.2}
    if bands > 1:
        options["electrons"] = 3
    whole, parts = compute(values, **options), compute(values, *sizes, **options)
    xr.testing.assert_identical(whole, parts)
    for name in whole.variables:
        if whole[name].dtype != object:
            assert whole[name].values.tobytes() == parts[name].values.tobytes()


def test_tiles_do_not_matter(silicon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compute(silicon, 4, 12, 12, width=0.1)
    monkeypatch.setattr("pipeline.stages.spectrum.dos.TILE", 1001)
    xr.testing.assert_identical(whole, compute(silicon, 12, 12, 12, width=0.1))


def test_order_of_matrices_does_not_matter(silicon: Any) -> None:
    turned = RNG.permutation(silicon.reshape(-1, 10))
    xr.testing.assert_identical(compute(silicon, width=0.1), compute(turned, 100, width=0.1))


def test_strided_and_swapped_values_give_the_same() -> None:
    values = np.sort(RNG.normal(size=(30, 4)))
    strided = np.repeat(values, 2, axis=0)[::2].astype(">f8")
    xr.testing.assert_identical(compute(values, width=0.1), compute(strided, width=0.1))


def test_weights_count_like_copies() -> None:
    values = np.sort(RNG.normal(size=(5, 3)))
    copies = [3, 0, 1, 4, 2]
    options: dict[str, Any] = {"width": 0.1, "range": [-9, 9], "points": 99}
    weighted = compute(values, 2, coords={"w": ("k1", copies)}, weights="w", **options)
    repeated = compute(np.repeat(values, copies, axis=0), **options)
    np.testing.assert_allclose(weighted.dos, repeated.dos, atol=1e-9)
    assert weighted.attrs["total_weight"] == 10 and weighted.attrs["matrices_used"] == 5


def test_unusable_matrices_never_count() -> None:
    values = np.sort(RNG.normal(size=(12, 3)))
    status = np.arange(12).astype(np.uint8)  # every code, and two that are unknown
    values[9, 1] = np.inf  # unchecked, and not finite
    got = compute(values, 5, status=status, width=0.1)
    kept = [code for code in USABLE if code != 9]
    xr.testing.assert_identical(
        got.drop_attrs(deep=False), compute(values[kept], width=0.1).drop_attrs(deep=False)
    )
    assert got.attrs["matrices_used"] == 2 and got.attrs["matrices_left_out"] == 10


def test_usable_status_codes() -> None:
    from kernels import Status

    assert (Status.ok, Status.repaired, Status.unchecked) == USABLE


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_usable(count: int, caplog: pytest.LogCaptureFixture) -> None:
    values, status = np.full((count, 2), np.nan), np.full(count, 2, np.uint8)
    with caplog.at_level(logging.WARNING):
        got = compute(values, status=status, electrons=2, width=0.1)
    assert "density of states is zero" in caplog.text
    assert not got.dos.any() and not got.idos.any()
    assert np.isnan(got.band_min).all() and np.isnan([got.gap, got.fermi_level]).all()
    assert got.attrs["matrices_used"] == 0 and got.attrs["matrices_left_out"] == count


@pytest.mark.parametrize(
    ("values", "width"),
    [([[0.0, 10.0]], 0.05), ([[5.0], [5.0]], 5e-6), ([[0.0]], 1.0), ([[-4e200, 4e200]], 4e198)],
)
def test_default_width(values: Any, width: float) -> None:
    got = compute(np.array(values), width=None)
    assert got.broadening == pytest.approx(width)
    total = len(values[0])
    assert got.idos[-1] == pytest.approx(total) and got.dos.integrate("energy") == pytest.approx(
        total, abs=1e-6
    )


def test_units() -> None:
    cases = {"eV": "1/eV", "THz": "1/THz", "rad/s": "1/(rad/s)", "cm-1": "1/(cm-1)", "1": "1"}
    assert {units: invert_units(units) for units in cases} == cases
    got = compute(np.array([[0.0]]), width=0.1, units=None)
    assert "units" not in got.dos.attrs and "units" not in got.energy.attrs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 1e-9}, "spectrum.width"),
        ({"width": 1e-17}, "cannot be resolved"),
        ({"width": math.inf}, "spectrum.width"),
        ({"width": 0.1, "points": 20_000_000}, "spectrum.points"),
        ({"width": 0.1, "range": [-1e9, 1e9]}, "narrower spectrum.range"),
        ({"width": 0.1, "range": [1.0, 1.0]}, "spectrum.range"),
        ({"width": 0.1, "weights": "nope"}, "does not exist.*numbers on the batch.*: w"),
        ({"width": 0.1, "weights": "name"}, "is no such coordinate"),
    ],
)
def test_misuse(options: dict[str, Any], said: str) -> None:
    coords = {"w": ("k1", [1.0, 2.0]), "name": ("k1", np.array(["a", "b"], object))}
    with pytest.raises(Misuse, match=said):
        compute(np.array([[0.0, 1.0], [2.0, 3.0]]), coords=coords, **options)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, -1.0], "1 of 2 weights are negative or not finite, the first -1.0 at k1=1"),
        ([math.nan, 1.0], "the first nan at k1=0"),
        ([1.0, math.inf], "the first inf at k1=1"),
        ([0.0, 0.0], "all weights are 0"),
    ],
)
def test_bad_weights(weights: list[float], said: str) -> None:
    coords = {"w": ("k1", weights, {"role": "weight"})}
    with pytest.raises(Misuse, match=said):
        compute(np.array([[0.0], [1.0]]), coords=coords, width=0.1)


def test_two_marked_weights() -> None:
    mark = {"role": "weight"}
    coords = {"v": ("k1", [1.0, 2.0], mark), "w": ("k1", [1.0, 2.0], mark)}
    with pytest.raises(Misuse, match="v, w are all marked"):
        compute(np.array([[0.0], [1.0]]), coords=coords, width=0.1)
    assert compute(np.array([[0.0], [1.0]]), coords=coords, width=0.1, weights="v")


def test_coarse_points_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        got = compute(np.array([[0.0, 1.0]]), width=0.01, points=5)
    assert "spectrum.points=5" in caplog.text and "caution" in got.attrs


@given(
    matrices=st.integers(1, 10**12),
    bands=st.integers(1, 500),
    heaviest=st.floats(1e-300, 1e300),
)
def test_sums_cannot_overflow(matrices: int, bands: int, heaviest: float) -> None:
    exponent = choose_exponent(matrices, bands, heaviest)
    (whole,) = weigh(np.array([heaviest]), (1,), exponent).tolist()
    assert whole * matrices * bands <= 2**61 + matrices * bands
    assert 0 < whole <= 2**52
    assert len(NODES) * matrices * bands < 2**62  # what rounding the shares can add
