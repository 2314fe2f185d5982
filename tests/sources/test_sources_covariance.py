"""Covariances of windows: against numpy, and eigenvalues against exact ones of measured stacks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from computed_cases import check_bits, refuse, solve
from numpy.typing import NDArray
from source_cases import read_all, whole

import pipeline
from pipeline.choices import Kind, Nan
from pipeline.errors import Misuse
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source

COVARIANCE: dict[str, Any] = {"kind": Kind.covariance}


def open_at(path: Path, **keys: Any) -> Any:
    return open_source(SourceConfig(path=str(path), **COVARIANCE, **keys))


def make_samples(*shape: int, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) * np.geomspace(1, 100, shape[-1]) + 1000 * rng.random(
        shape[-1]
    )


@pytest.fixture
def station(tmp_path: Path) -> tuple[Path, NDArray[Any]]:
    """Temperatures of seven places over 500 days, in chunks that windows do not fit."""
    values = make_samples(500, 7)
    days = np.datetime64("2001-01-01") + np.arange(500)
    places = [f"place {i}" for i in range(7)]
    data = xr.Dataset(
        {"temperature": (("time", "place"), values, {"units": "K", "long_name": "temperature"})},
        {"time": days, "place": places, "lat": ("place", np.linspace(-90, 60, 7))},
    )
    data["place"] = data["place"].astype(object)
    encoding = {"temperature": {"chunks": (64, 3)}}
    data.to_zarr(tmp_path / "in.zarr", zarr_format=2, consolidated=False, encoding=encoding)
    return tmp_path / "in.zarr", values


@pytest.mark.parametrize(
    ("name", "units"),
    [("cov_iris", "cm"), ("cov_wine", "1"), ("cov_elnino_sst", "degC"), ("cov_eeg_biosemi", "uV")],
)
def test_measured_covariances(shared: Path, tmp_path: Path, name: str, units: str) -> None:
    """Samples made to have these covariances; eigenvalues against exact ones of the stack."""
    with np.load(shared / "data" / "C_tensors" / f"{name}.npz") as file:
        data = dict(file)
    n = data["cov"].shape[-1]
    rng = np.random.default_rng(0)
    samples = []
    for c in data["cov"]:
        noise = rng.standard_normal((4 * n, n))
        q, _ = np.linalg.qr(noise - noise.mean(axis=0))  # orthonormal, of mean 0
        values, vectors = np.linalg.eigh(c)
        root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
        samples.append(np.sqrt(4 * n - 1) * q @ root)
    stack = xr.Dataset({"x": (("group", "time", "channel"), np.array(samples), {"units": units})})
    stack.to_zarr(tmp_path / "in.zarr", zarr_format=3, consolidated=False)
    tree = pipeline.run(
        ["source=covariance", "cluster=serial", "solve.vectors=true"],
        source={"path": str(tmp_path / "in.zarr")},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    assert (tree.status == 0).all() and tree.eigenvalues.dims == ("group", "mode")
    assert tree.eigenvectors.dims == ("group", "channel", "mode")
    assert tree.eigenvalues.attrs["units"] == ("1" if units == "1" else f"{units}^2")
    reference = data["eig_hi"][:, ::-1]
    error = np.abs(tree.eigenvalues.to_numpy() - reference).max(axis=1) / reference[:, 0]
    assert error.max() < 1e-14
    assert not pipeline.verify(tmp_path / "out.zarr").failed


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"window": 50},
        {"window": 50, "step": 7, "ddof": 0},
        {"window": 3},
        {"window": 500},
        {"window": 60, "step": 100, "isel": {"place": [6, 0, 3]}},
        {"window": 30, "sel": {"time": "2001-03-01..2002-02-01"}},
    ],
)
def test_windows(station: tuple[Path, NDArray[Any]], keys: dict[str, Any]) -> None:
    path, values = station
    source = open_at(path, **keys)
    if "sel" in keys:
        values = values[59:397]
    values = values[:, keys.get("isel", {}).get("place", slice(None))]
    length, ddof = keys.get("window", len(values)), keys.get("ddof", 1)
    starts = range(0, len(values) - length + 1, keys.get("step", length))
    expected = [np.cov(values[s : s + length].T, ddof=ddof) for s in starts]
    matrices = read_all(source)
    scale = np.abs(values).max() ** 2
    found = matrices if "window" in keys else matrices[None]
    np.testing.assert_allclose(found, expected, atol=1e-13 * scale, rtol=0)
    np.testing.assert_array_equal(matrices, matrices.swapaxes(-1, -2))
    assert source.dims == (("window",) if "window" in keys else ())
    assert source.row_dim == "place" and source.attrs["units"] == "K^2"
    assert len(source.coords["place"]) == source.n
    if "window" in keys:
        check_bits(source)
        first = np.datetime64("2001-01-01") + (59 if "sel" in keys else 0) + np.array(starts)
        np.testing.assert_array_equal(source.coords["time_first"], first.astype("M8[ns]"))
        np.testing.assert_array_equal(
            source.coords["time_last"] - source.coords["time_first"],
            np.timedelta64(length - 1, "D"),
        )


def test_other_dimensions(tmp_path: Path) -> None:
    """Trials, the channel before the sample, complex samples, many channels, read in parts."""
    samples = make_samples(4, 30, 150) + 1j * make_samples(4, 30, 150, seed=1)
    np.save(tmp_path / "x.npy", samples.swapaxes(1, 2))
    keys: dict[str, Any] = {"sample_dim": "dim_2", "window": 10, "step": 4, "demean": False}
    source = open_at(tmp_path / "x.npy", **keys)
    assert source.dims == ("dim_0", "window") and source.shape == (4, 6)
    assert (source.n, source.row_dim, source.dtype.name) == (150, "dim_1", "complex128")
    x = samples[2, 8:18]
    expected = x.T @ x.conj() / 9
    np.testing.assert_allclose(read_all(source)[2, 2], expected, rtol=1e-12)
    check_bits(source)
    bits = read_all(source)
    source._span = lambda: 12
    np.testing.assert_array_equal(read_all(source), bits)


def test_weights_and_correlation(station: tuple[Path, NDArray[Any]]) -> None:
    path, values = station
    weight = np.sqrt(np.maximum(np.cos(np.deg2rad(np.linspace(-90, 60, 7))), 0))
    plain = read_all(open_at(path))
    weighed = read_all(open_at(path, feature_weights="sqrt_cos(lat)"))
    np.testing.assert_allclose(weighed, plain * np.outer(weight, weight), atol=1e-8)
    correlation = open_at(path, correlation=True)
    np.testing.assert_allclose(read_all(correlation), np.corrcoef(values.T), atol=1e-12)
    assert (np.diagonal(read_all(correlation)) == 1).all() and correlation.attrs["units"] == "1"
    seen = [open_at(path, **k).identity() for k in ({}, {"correlation": True}, {"ddof": 0})]
    seen += [
        open_at(path, feature_weights="lat").identity(),
        open_at(path, demean=False).identity(),
    ]
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


def test_nan(tmp_path: Path) -> None:
    """One bad window costs one row; or its bad samples; or the pairs that they are in."""
    values = make_samples(100, 5)
    values[[23, 25], [1, 3]] = np.nan  # second window
    values[40:60, 2] = np.nan  # all of the third
    np.save(tmp_path / "x.npy", values)
    source = open_at(tmp_path / "x.npy", window=20)
    matrices, missing = source.read(whole(source))
    assert missing.tolist() == [False, True, True, False, False]
    np.testing.assert_allclose(matrices[4], np.cov(values[80:].T), rtol=1e-9)
    dropped = open_at(tmp_path / "x.npy", window=20, nan=Nan.drop_sample)
    matrices, missing = dropped.read(whole(dropped))
    assert missing.tolist() == [False, False, True, False, False]
    kept = np.delete(values[20:40], [3, 5], axis=0)
    np.testing.assert_allclose(matrices[1], np.cov(kept.T), rtol=1e-9, atol=1e-9)
    pairs = open_at(tmp_path / "x.npy", window=20, nan=Nan.pairwise)
    matrices, missing = pairs.read(whole(pairs))
    assert not missing.any()
    window = values[20:40]
    for i, j in np.ndindex(5, 5):
        both = ~np.isnan(window[:, i]) & ~np.isnan(window[:, j])
        expected = np.cov(window[both, i], window[both, j])[0, 1]
        assert matrices[1, i, j] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (
        np.isnan(matrices[2, 2]).all()
        and np.isfinite(np.delete(matrices[2], 2, 0)[:, [0, 1]]).all()
    )
    single = open_at(tmp_path / "x.npy")
    assert single.shape == () and single.read(whole(single))[1].all()
    tree = pipeline.run(
        ["source=covariance", "source.window=20", "cluster=serial", "run.max_bad=2"],
        source={"path": str(tmp_path / "x.npy")},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    assert tree.status.to_numpy().tolist() == [0, 4, 4, 0, 0]
    exact = solve(np.cov(values[:20].T))[::-1]
    np.testing.assert_allclose(tree.eigenvalues[0], exact, rtol=1e-9)


def test_refusals(station: tuple[Path, NDArray[Any]], tmp_path: Path) -> None:
    path, _ = station
    refuse(path, "500 samples", window=501, **COVARIANCE)
    refuse(path, "source.step", "source.window", step=3, **COVARIANCE)
    refuse(path, "source.sample_dim=x", "time, place", sample_dim="x", **COVARIANCE)
    refuse(path, "both time", sample_dim="time", channel_dim="time", **COVARIANCE)
    refuse(path, "sqrt_cos(NAME)", "lat", feature_weights="latitude", **COVARIANCE)
    refuse(path, "list or a range", isel={"place": 3}, **COVARIANCE)
    (path / "temperature" / "3.1").unlink()
    refuse(path, "absent", "source.missing=fill", **COVARIANCE)
    filled = open_at(path, window=50, missing="fill")
    _, missing = pickle.loads(pickle.dumps(filled)).read(whole(filled))
    assert np.flatnonzero(missing).tolist() == [3, 4, 5]
    assert len(open_at(path, isel={"time": "0:100"}).coords["place"]) == 7
    np.save(tmp_path / "one.npy", np.zeros(5))
    refuse(tmp_path / "one.npy", "one of samples", **COVARIANCE)
    with pytest.raises(Misuse, match=r"source\.mask"):
        SourceConfig(path="/x", mask="m", **COVARIANCE)


def test_a_policy_with_a_hyphen_can_be_given_on_the_command_line() -> None:
    from pipeline.config import compose

    config = compose(["source=covariance", "source.path=a.npy", "source.nan=drop-sample"])
    assert config.source.nan.value == "drop-sample"
