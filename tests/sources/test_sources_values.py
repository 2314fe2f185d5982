"""Types and CF packing of the matrix variable."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from source_cases import make_stack, open_at, read_all, refuse, whole, write_array


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("stored", "delivered"),
    [
        ("f2", "f4"),
        ("f4", "f4"),
        ("f8", "f8"),
        ("c8", "c8"),
        ("c16", "c16"),
        ("i1", "f8"),
        ("u8", "f8"),
        ("?", "f8"),
    ],
)
def test_types(tmp_path: Path, zarr_format: int, stored: str, delivered: str) -> None:
    values = make_stack(3, 2, 2, dtype=stored)
    write_array(tmp_path / "a", values, zarr_format=zarr_format)
    source = open_at(tmp_path / "a")
    assert source.dtype == np.dtype(delivered) and source.stored_dtype == np.dtype(stored)
    np.testing.assert_array_equal(read_all(source), values.astype(delivered))


@pytest.mark.parametrize("stored", [">f8", ">c8", ">i4", ">f2"])
def test_big_endian(tmp_path: Path, stored: str) -> None:
    values = make_stack(3, 2, 2, dtype=stored)
    write_array(tmp_path / "a", values, zarr_format=2)
    np.testing.assert_array_equal(read_all(open_at(tmp_path / "a")), values)


@pytest.mark.parametrize("dtype", ["<U4", "<M8[s]", [("r", "<f8"), ("i", "<f8")]])
def test_types_that_are_refused(tmp_path: Path, dtype: Any) -> None:
    zarr.create_array(str(tmp_path / "a"), shape=(3, 2, 2), dtype=dtype, zarr_format=2)
    refuse(tmp_path / "a", "expected real or complex numbers", "store" if len(dtype) == 2 else "")


def test_long_double_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2), dtype=np.longdouble))
    refuse(tmp_path / "a.npy", "long double", "float64")


FILLS = {
    "plain": -999.0,
    "base64": base64.b64encode(struct.pack("<d", -999.0)).decode(),
    "text": "-999",
    "list": [-999.0],
}


@pytest.mark.parametrize("how", FILLS)
@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
def test_declared_missing_values(tmp_path: Path, how: str, key: str) -> None:
    values = make_stack(4, 2, 2)
    values[1, 0, 1] = -999
    write_array(tmp_path / "a", values, attributes={key: FILLS[how], "units": "eV"})
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert missing.tolist() == [False, True, False, False]
    assert np.argwhere(np.isnan(got)).tolist() == [[1, 0, 1]]
    assert source.attrs == {"units": "eV"}
    for policy in ("error", "fill"):
        got, missing = (source := open_at(tmp_path / "a", missing=policy)).read(whole(source))
        assert not missing.any() and np.isnan(got).sum() == 1


def test_nan_as_fill_value_is_not_missing_data(tmp_path: Path) -> None:
    values = make_stack(2, 2, 2)
    values[1, 0, 0] = np.nan
    nan = base64.b64encode(struct.pack("<d", np.nan)).decode()
    write_array(tmp_path / "a", values, attributes={"_FillValue": nan})
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert not missing.any()
    np.testing.assert_array_equal(got, values)


def test_packed_integers(tmp_path: Path) -> None:
    raw = make_stack(4, 2, 2, dtype="i2")
    raw[2, 1, 1] = -1
    attributes = {"scale_factor": 0.5, "add_offset": [10.0], "_FillValue": -1}
    write_array(tmp_path / "a", raw, attributes=attributes)
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert missing.tolist() == [False, False, True, False] and source.attrs == {}
    np.testing.assert_array_equal(got[:2], raw[:2] * 0.5 + 10)


def test_packed_single_precision_becomes_double(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(2, 2, 2, dtype="f4"), attributes={"scale_factor": 0.1})
    source = open_at(tmp_path / "a")
    assert source.dtype == np.float64
    np.testing.assert_array_equal(read_all(source), make_stack(2, 2, 2) * 0.1)


def test_unsigned_bytes_of_classic_netcdf(tmp_path: Path) -> None:
    raw = np.array([[[-1, 5], [6, 7]]], dtype="i1")
    write_array(tmp_path / "a", raw, attributes={"_Unsigned": "true"})
    assert read_all(open_at(tmp_path / "a")).tolist() == [[[255, 5], [6, 7]]]


def test_v2_fill_value_is_missing_only_in_arrays_of_xarray(tmp_path: Path) -> None:
    values = make_stack(2, 2, 2)
    values[1] = -1
    array = write_array(tmp_path / "a", values, zarr_format=2, fill_value=-1, chunks=(2, 2, 2))
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert not missing.any() and np.array_equal(got, values)
    array.attrs["_ARRAY_DIMENSIONS"] = ["x", "i", "j"]
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert missing.tolist() == [False, True]


def test_units(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_array(tmp_path / "a", make_stack(2, 2), attributes={"units": "eV", "note": [1, 2]})
    write_array(tmp_path / "b", make_stack(2, 2))
    assert open_at(tmp_path / "b", units="meV").attrs == {"units": "meV"}
    assert open_at(tmp_path / "a").attrs == {"units": "eV", "note": [1, 2]}
    assert not caplog.records
    assert open_at(tmp_path / "a", units="meV").attrs["units"] == "eV"
    assert "source.units=meV is ignored" in caplog.text
