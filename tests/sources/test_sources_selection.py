"""source.isel and source.sel: positions, labels, refusals, chunk edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from source_cases import make_stack, open_at, read_all, refuse

VALUES = make_stack(10, 4, 2, 2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("selection") / "d.zarr"
    data = xr.Dataset(
        {"h": (("time", "site", "i", "j"), VALUES)},
        coords={
            "time": np.arange("2020-01-01", "2020-01-11", dtype="M8[D]").astype("M8[ns]"),
            "site": ["Gamma", "X", "a..b", "L"],
            "depth": (("time", "site"), make_stack(10, 4, seed=1)),
            "height": ("site", [1.0, 2.0, 3.0, 4.0]),
        },
    )
    encoding = {"h": {"chunks": (4, 3, 2, 2)}}
    data.to_zarr(path, zarr_format=2, encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("isel", "index", "chunks"),
    [
        ({"time": 3}, (3,), ((3, 1),)),
        ({"time": "-1"}, (-1,), ((3, 1),)),
        ({"time": "2:9"}, (slice(2, 9),), ((2, 4, 1), (3, 1))),
        ({"time": "::3"}, (slice(None, None, 3),), ((2, 1, 1), (3, 1))),
        ({"time": "::-1"}, (slice(None, None, -1),), ((2, 4, 4), (3, 1))),
        ({"time": {"start": 8}}, (slice(8, None),), ((2,), (3, 1))),
        ({"time": [9, 0, 1, 4]}, ([9, 0, 1, 4],), ((1, 2, 1), (3, 1))),
        ({"time": []}, ([],), ((), (3, 1))),
        ({"time": [2], "site": 0}, ([2], 0), ((1,),)),
    ],
)
def test_isel(store: Path, isel: dict[str, Any], index: Any, chunks: Any) -> None:
    source = open_at(store, isel=isel)
    np.testing.assert_array_equal(read_all(source), VALUES[index])
    assert source.chunks == chunks
    with xr.open_zarr(store) as data:
        plain = dict(zip(("time", "site"), index, strict=False))
        expected = data["h"].isel(plain)
        assert source.dims == expected.dims[:-2]
        assert set(source.coords.variables) == set(expected.coords)
        for name, coord in expected.coords.items():
            np.testing.assert_array_equal(source.coords[name], coord)


@pytest.mark.parametrize(
    ("sel", "index"),
    [
        ({"time": "2020-01-03"}, 2),
        ({"time": "2020-01-03T00:00:00Z"}, 2),
        ({"time": ["2020-01-05", "2020-01-02"]}, [4, 1]),
        ({"time": "2020-01-09..2020-01"}, slice(8, 10)),
        ({"time": "..2020-01-02"}, slice(0, 2)),
        ({"time": {"start": "2020-01-02", "stop": "2020-01-04"}}, slice(1, 4)),
        ({"site": "X"}, (slice(None), 1)),
        ({"site": "a..b"}, (slice(None), 2)),
        ({"site": ["L", "Gamma"]}, (slice(None), [3, 0])),
        ({"site": "L..X"}, (slice(None), [1, 3])),
    ],
)
def test_sel(store: Path, sel: dict[str, Any], index: Any) -> None:
    source = open_at(store, sel=sel)
    np.testing.assert_array_equal(read_all(source), VALUES[index])


def test_selected_away_dimensions_leave_scalar_coordinates(store: Path) -> None:
    source = open_at(store, sel={"site": "X"}, isel={"time": 0})
    assert source.dims == () and source.chunks == ()
    assert str(source.coords["site"].item()) == "X" and source.coords["height"].item() == 2.0


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"isel": {"time": 10}}, ("position 10", "length 10")),
        ({"isel": {"time": [0, -11]}}, ("position -11", "length 10")),
        ({"isel": {"tim": 0}}, ("'tim'", "time (10), site (4)")),
        ({"isel": {"i": 0}}, ("'i'", "dimension of the matrix", "cannot be cut")),
        ({"isel": {"time": "1:x"}}, ("'start:stop'",)),
        ({"isel": {"time": 1.5}}, ("1.5", "expected an int")),
        ({"isel": {"time": {"begin": 1}}}, ("'begin'", "start, stop, step")),
        ({"isel": {"time": "::0"}}, ("step not 0",)),
        ({"isel": {"time": 1}, "sel": {"time": "2020-01-01"}}, ("both", "'time'")),
        ({"sel": {"time": "2020-02-01"}}, ("no such label", "nearest is 2020-01-10", "run from")),
        ({"sel": {"time": "noon"}}, ("'noon'", "does not fit", "datetime64")),
        ({"sel": {"site": "gamma"}}, ("Did you mean 'Gamma'?",)),
        ({"sel": {"time": "2021-01-01..2021-02-01"}}, ("no label lies between",)),
        ({"sel": {"j": 0}}, ("dimension of the matrix",)),
    ],
)
def test_selections_that_are_refused(store: Path, keys: Any, words: tuple[str, ...]) -> None:
    refuse(store, *words, **keys)


@pytest.mark.parametrize(
    ("labels", "want", "position"),
    [
        (np.array([0.1, 0.2, 0.3]), 0.3, 2),
        (np.array([0.1, 0.2, 0.1 + 0.2]), 0.3, 2),
        (np.array([0.1, 0.2, 0.3]), "0.15..0.3", slice(1, 3)),
        (np.array([3, 2, 1]), {"start": 2}, slice(0, 2)),
        (np.array([3, 2, 1]), [1, 3], [2, 0]),
        (np.array([3, 2, 1]), "1", 2),
        (np.array([False, True]), True, 1),
        (np.array([1, 2, 3], dtype="m8[h]").astype("m8[ns]"), "2 h", 1),
        (np.array([1, 2, 3], dtype="m8[h]").astype("m8[ns]"), "90m..", slice(1, 3)),
    ],
)
def test_labels_of_every_kind(tmp_path: Path, labels: Any, want: Any, position: Any) -> None:
    values = make_stack(len(labels), 2, 2)
    data = xr.Dataset({"h": (("x", "i", "j"), values)}, coords={"x": labels})
    data.to_zarr(tmp_path / "d", zarr_format=2)
    source = open_at(tmp_path / "d", sel={"x": want})
    np.testing.assert_array_equal(read_all(source), values[position])


def test_labels_that_are_refused(tmp_path: Path) -> None:
    data = xr.Dataset({"h": (("x", "i", "j"), make_stack(3, 2, 2))}, coords={"x": [0.1, 0.5, 0.5]})
    data.to_zarr(tmp_path / "d", zarr_format=2)
    refuse(tmp_path / "d", "nearest is 0.1", sel={"x": 0.11})
    refuse(tmp_path / "d", "2 labels match", "source.isel={x: 1}", sel={"x": 0.5})
    refuse(tmp_path / "d", "'low'", "does not fit", sel={"x": "low"})
    data.drop_vars("x").to_zarr(tmp_path / "e", zarr_format=2)
    refuse(tmp_path / "e", "no index coordinate", "source.isel={x: ...}", sel={"x": 0.5})
