"""Stores written by other software open with equal values, or are refused with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from source_cases import open_at, read_all, refuse

from pipeline.errors import Misuse


@pytest.fixture(scope="module")
def stores(shared: Path) -> Path:
    return shared / "data" / "F_stores"


def test_every_array_opens_or_is_refused_with_a_remedy(stores: Path) -> None:
    entries = json.loads((stores / "index.json").read_text())
    expected = np.load(stores / "expected.npz")
    opened = 0
    for entry in entries:
        path, shape = stores / entry["path"], entry["shape"]
        if "values" in entry:
            refuse(path, "does not hold numbers", "source.variable=NAME", missing="fill")
        elif len(shape) < 2:
            refuse(path, "at least two dimensions", "source.variable=NAME", missing="fill")
        else:
            source = open_at(path, missing="fill")
            want = expected[entry["path"].replace("/", "|")]
            np.testing.assert_array_equal(read_all(source), want.astype(source.dtype))
            assert str(source.stored_dtype.newbyteorder("=")) == entry["dtype"]
            assert (*source.shape, source.n, source.n) == tuple(shape)
            opened += 1
    assert opened == 31


def test_whole_arrays_open_under_the_default_policy_too(stores: Path) -> None:
    source = open_at(stores / "zarrjava_sharding_index_end")
    expected = np.load(stores / "expected.npz")["zarrjava_sharding_index_end"]
    np.testing.assert_array_equal(read_all(source), expected)
    assert source.chunks == ((8, 8),)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("zarrs_array_write_read.zarr/group/array", "c/0/0"),
        ("zarrita_v3.zarr/3d.chunked.i2", "c/0/0/0"),
        ("zarrita_v3.zarr/3d.chunked.compressed.sharded.i2", "c/0/0/0 (inner chunk (0, 0, 0)"),
        ("zarrjava_v2_sample/double", "63 of 64 chunks"),
    ],
)
def test_absent_chunks_are_refused_by_default(stores: Path, path: str, name: str) -> None:
    refuse(stores / path, name, "source.missing=fill", "source.missing=flag")


def test_a_group_of_many_stacks_asks_which(stores: Path) -> None:
    message = refuse(stores / "ome_v0.5.zarr", "source.variable=0", "labels/nuclei/0", "float32")
    assert message.count("looks like a stack") == 3
    source = open_at(stores / "ome_v0.5.zarr", variable="labels/nuclei/0", missing="fill")
    assert source.dims == ("dim_0",) and source.row_dim == "component"
    assert source.stored_dtype == np.uint32 and source.dtype == np.float64


def test_consolidated_v3_group(stores: Path) -> None:
    source = open_at(stores / "zarrita_v3.zarr" / "consolidated")
    assert source.name == "2d.contiguous.i2"
    assert read_all(source).shape == (2, 2)


def test_other_formats_are_refused_with_a_remedy(stores: Path) -> None:
    refuse(stores / "netcdf", "netCDF", "xr.open_dataset", "to_zarr")
    refuse(stores / "netcdf" / "xarray_example_1.nc", "xr.open_dataset", "to_zarr")
    refuse(stores / "expected.npz", ".npz", "np.save")
    refuse(stores / "index.json", "neither a Zarr store nor an .npy file")
    refuse(stores, "folder of stores", "ome_v0.5.zarr")


def test_a_misspelt_path_inside_a_store_names_the_nearest(stores: Path) -> None:
    with pytest.raises(Misuse, match=r"Did you mean .*2d\.chunked\.i2\?"):
        open_at(stores / "zarrita_v3.zarr" / "2d.chunkd.i2")
