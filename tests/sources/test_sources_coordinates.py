"""Coordinates of every kind come along, as xarray reads them; an unreadable one is left out."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from source_cases import make_stack, open_at, read_all, write_array


def make_dataset() -> xr.Dataset:
    values = make_stack(3, 2, 2, 2, dtype="c16")
    data = xr.Dataset(
        {"h": (("time", "site", "orbital", "orbital2"), values), "other": ("time", [1, 2, 3])},
        coords={
            "time": ("time", np.array(["2020-01-01", "2020-06-01T12", "NaT"], dtype="M8[ns]")),
            "site": ("site", ["Γ", "a longer name"], {"long_name": "point"}),
            "orbital": ("orbital", ["s", "px"]),
            "lag": ("time", np.array([1, 2, 3], dtype="m8[s]").astype("m8[ns]")),
            "good": (("site", "time"), np.array([[True, False, True], [False, True, True]])),
            "kx": (("time", "site"), make_stack(3, 2), {"units": "1/m"}),
            "count": ("time", np.array([0, 1, 2], dtype="i4")),
            "hole": ("time", [1.0, np.nan, 3.0]),
            "weight": (("time", "orbital"), make_stack(3, 2)),
            "pair": ("orbital2", [1, 2]),
            "scalar": ((), 2.5, {"units": "eV"}),
            "label": ((), "Si"),
        },
        attrs={"title": "a test", "numbers": [1, 2]},
    )
    return data


def check_same(source_coords: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(source_coords.variables) == set(expected.variables)
    for name in expected.variables:
        got, want = source_coords[name], expected[name]
        assert got.dims == want.dims and got.attrs == want.attrs, name
        assert got.dtype.kind == want.dtype.kind or got.dtype.kind in "OUT", name
        np.testing.assert_array_equal(got.to_numpy(), want.to_numpy(), err_msg=str(name))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_every_kind(
    tmp_path: Path, zarr_format: int, consolidated: bool, recwarn: pytest.WarningsRecorder
) -> None:
    data = make_dataset()
    with warnings.catch_warnings():
        # zarr-python warns of strings and of consolidated metadata in v3.
        warnings.simplefilter("ignore")
        data.to_zarr(tmp_path / "d", zarr_format=zarr_format, consolidated=consolidated)
    source = open_at(tmp_path / "d", variable="h")
    np.testing.assert_array_equal(read_all(source), data["h"])
    assert source.dims == ("time", "site") and source.row_dim == "orbital"
    check_same(source.coords, data.drop_vars(["h", "other", "pair"]))
    assert source.coords.attrs == data.attrs
    assert set(source.coords.indexes) == {"time", "site", "orbital"}
    assert open_at(tmp_path / "d" / "h").coords.identical(source.coords)
    assert not recwarn.list


def test_the_plain_dialect_of_zarr_python(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "d"), zarr_format=2)
    group.attrs["coordinates"] = "kx flag missing_one"
    kinds = {
        "x": np.arange(3, dtype=">f8"),
        "kx": np.array([0.0, -999.0, 2.0]),
        "flag": np.array([True, False, True]),
        "name": np.array(["a", "bc", "d"], dtype="U2"),
        "raw": np.array([b"a", b"bc", b"d"], dtype="S2"),
        "zero": np.array([0, 1, 0]),
    }
    values = make_stack(3, 2, 2)
    for name, content in {**kinds, "h": values}.items():
        array = group.create_array(name, shape=content.shape, dtype=content.dtype)
        array[...] = content
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"] if content.ndim == 1 else ["x", "i", "i"]
    group["h"].attrs["coordinates"] = "name raw zero"
    group["kx"].attrs["_FillValue"] = -999.0
    source = open_at(tmp_path / "d")
    assert source.coords["x"].dtype.isnative and source.coords["x"].to_numpy().tolist() == [0, 1, 2]
    np.testing.assert_array_equal(source.coords["kx"], [0, np.nan, 2])
    assert source.coords["flag"].dtype == bool
    assert source.coords["name"].to_numpy().tolist() == ["a", "bc", "d"]
    assert source.coords["raw"].to_numpy().tolist() == ["a", "bc", "d"]
    assert source.coords["zero"].to_numpy().tolist() == [0, 1, 0]
    assert set(source.coords.variables) == set(kinds)
    assert "coordinates" not in source.attrs


def test_plain_number_fill_values_and_null_names_in_v3(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "d"))
    values = make_stack(3, 2, 2)
    for name, content in {"h": values, "x": np.array([1.5, -1.0, 2.5])}.items():
        names = ["x"] if content.ndim == 1 else ["x", None, None]
        array = group.create_array(name, shape=content.shape, dtype="f8", dimension_names=names)
        array[...] = content
        array.attrs["_FillValue"] = -1
    source = open_at(tmp_path / "d")
    np.testing.assert_array_equal(source.coords["x"], [1.5, np.nan, 2.5])
    np.testing.assert_array_equal(read_all(source), values)


def test_a_repeated_row_dimension_keeps_its_labels(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "d"))
    stack = group.create_array("h", shape=(2, 3, 3), dtype="f8", dimension_names=["k", "o", "o"])
    stack[...] = make_stack(2, 3, 3)
    labels = group.create_array("o", shape=(3,), dtype="i4", dimension_names=["o"])
    labels[...] = [7, 8, 9]
    assert open_at(tmp_path / "d").coords["o"].to_numpy().tolist() == [7, 8, 9]


def break_metadata(folder: Path) -> None:
    (folder / "zarr.json").write_text("{")


def break_codec(folder: Path) -> None:
    metadata = json.loads((folder / "zarr.json").read_text())
    metadata["codecs"].append({"name": "nobody.knows", "configuration": {}})
    (folder / "zarr.json").write_text(json.dumps(metadata))


def break_chunk(folder: Path) -> None:
    (folder / "c" / "0").write_bytes(b"x")


def break_units(folder: Path) -> None:
    metadata = json.loads((folder / "zarr.json").read_text())
    metadata["attributes"]["units"] = "days since the flood"
    (folder / "zarr.json").write_text(json.dumps(metadata))


def break_length(folder: Path) -> None:
    metadata = json.loads((folder / "zarr.json").read_text())
    metadata["shape"] = [5]
    (folder / "zarr.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    "spoil", [break_metadata, break_codec, break_chunk, break_units, break_length]
)
def test_an_unreadable_coordinate_is_left_out_with_a_warning(
    tmp_path: Path, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:
    coords = {"x": [1.0, 2.0, 3.0], "y": ("x", [4.0, 5.0, 6.0])}
    data = xr.Dataset({"h": (("x", "i", "j"), make_stack(3, 2, 2))}, coords=coords)
    data.to_zarr(tmp_path / "d", zarr_format=3, consolidated=False)
    spoil(tmp_path / "d" / "x")
    source = open_at(tmp_path / "d")
    assert list(source.coords.variables) == ["y"]
    if spoil is not break_metadata:
        assert "coordinate 'x' is left out: it cannot be read" in caplog.text
    read_all(source)


def test_pickled_objects_are_not_unpickled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = xr.Dataset({"h": (("x", "i", "j"), make_stack(3, 2, 2))}, coords={"x": [1.0, 2.0, 3.0]})
    data.to_zarr(tmp_path / "d", zarr_format=2)
    file = tmp_path / "d" / "x" / ".zarray"
    metadata = json.loads(file.read_text()) | {"dtype": "|O", "filters": [{"id": "pickle"}]}
    file.write_text(json.dumps(metadata))
    assert not open_at(tmp_path / "d").coords.variables
    assert "pickles" in caplog.text


def test_a_group_attribute_is_not_taken_from_a_folder_of_stores(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(2, 2))
    assert not open_at(tmp_path / "a").coords.attrs
