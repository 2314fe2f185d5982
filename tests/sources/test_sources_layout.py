"""Dimensions: matrix dims anywhere, names present, absent, repeated; choosing the variable."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from source_cases import make_stack, open_at, read_all, refuse, whole, write_array


def write_named(path: Path, values: Any, names: Any, **keys: Any) -> None:
    write_array(path, values, dimension_names=names, **keys)


def test_default_is_the_last_two(tmp_path: Path) -> None:
    values = make_stack(4, 5, 3, 3)
    write_named(tmp_path / "a", values, ("x", "y", "row", "col"), chunks=(3, 2, 3, 3))
    source = open_at(tmp_path / "a")
    assert (source.dims, source.shape, source.n) == (("x", "y"), (4, 5), 3)
    assert source.row_dim == "row"
    assert source.chunks == ((3, 1), (2, 2, 1))
    assert source.chunk_bytes == 3 * 2 * 9 * 8
    np.testing.assert_array_equal(read_all(source), values)


@pytest.mark.parametrize("matrix_dims", [["col", "row"], [2, 0], [-1, 0], [-1, -3]])
def test_matrix_dims_by_name_and_position(tmp_path: Path, matrix_dims: list[Any]) -> None:
    values = make_stack(3, 4, 3)
    write_named(tmp_path / "a", values, ("row", "x", "col"))
    source = open_at(tmp_path / "a", matrix_dims=matrix_dims)
    assert source.dims == ("x",) and source.row_dim == "col"
    np.testing.assert_array_equal(read_all(source), values.transpose(1, 2, 0))


def test_a_repeated_name(tmp_path: Path) -> None:
    values = make_stack(2, 3, 3)
    write_named(tmp_path / "a", values, ("k", "orbital", "orbital"))
    for keys in ({}, {"matrix_dims": ["orbital", "orbital"]}):
        source = open_at(tmp_path / "a", **keys)
        assert source.dims == ("k",) and source.row_dim == "orbital"
        np.testing.assert_array_equal(read_all(source), values)


def test_names_shared_by_batch_and_matrix(tmp_path: Path) -> None:
    write_named(tmp_path / "a", make_stack(3, 3, 3, 3), ("x", "x", "x", None))
    source = open_at(tmp_path / "a")
    assert source.dims == ("x", "x_1") and source.row_dim == "component"
    refuse(tmp_path / "a", "3 dimensions bear", "positions", matrix_dims=["x", "x"])


@pytest.mark.parametrize("names", [None, (None, None, None), ("", None, None)])
def test_without_names(tmp_path: Path, names: Any) -> None:
    write_array(tmp_path / "a", make_stack(4, 2, 2))
    if names is not None:
        file = tmp_path / "a" / "zarr.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"dimension_names": names}))
    source = open_at(tmp_path / "a")
    assert source.dims == ("dim_0",) and source.row_dim == "component"


def test_v2_names_from_xarray_and_netcdf(tmp_path: Path) -> None:
    array = write_array(tmp_path / "a", make_stack(4, 2, 2), zarr_format=2)
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "r", "c"]
    assert open_at(tmp_path / "a").dims == ("time",)
    array = write_array(tmp_path / "b", make_stack(4, 2, 2), zarr_format=2)
    file = tmp_path / "b" / ".zarray"
    refs = {"_NCZARR_ARRAY": {"dimrefs": ["/time", "/r", "/c"], "storage": "chunked"}}
    file.write_text(json.dumps(json.loads(file.read_text()) | refs))
    assert open_at(tmp_path / "b").dims == ("time",)


@pytest.mark.parametrize("shape", [(1, 1), (5, 1, 1), (3, 3), (0, 3, 3), (4, 0, 2, 2)])
def test_small_and_empty_stacks(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = make_stack(*shape, dtype="c16")
    write_array(tmp_path / "a", values)
    source = open_at(tmp_path / "a")
    assert source.shape == shape[:-2]
    np.testing.assert_array_equal(read_all(source), values)


@pytest.mark.parametrize("chunks", [(1, 2, 2), (3, 1, 2), (5, 2, 1)])
def test_chunks_split_in_the_matrix(tmp_path: Path, chunks: tuple[int, ...]) -> None:
    values = make_stack(5, 2, 2)
    write_array(tmp_path / "a", values, chunks=chunks)
    np.testing.assert_array_equal(read_all(open_at(tmp_path / "a")), values)


def test_matrices_that_are_not_square(tmp_path: Path) -> None:
    write_named(tmp_path / "a", make_stack(3, 4, 2), ("x", "y", "z"))
    refuse(tmp_path / "a", "4 x 2", "not square", "x, y, z", "source.matrix_dims")
    refuse(tmp_path / "a", "'q'", "not there", "x, y, z", matrix_dims=["q", "x"])
    refuse(tmp_path / "a", "position 3", "-3 to 2", matrix_dims=[0, 3])
    refuse(tmp_path / "a", "one dimension twice", matrix_dims=[2, -1])
    write_array(tmp_path / "b", np.zeros((3, 0, 0)))
    refuse(tmp_path / "b", "0 x 0", "empty")


def make_group(path: Path) -> None:
    group = zarr.create_group(str(path))
    for name, shape in {"a/b": (4, 3, 3), "vector": (4, 3), "a/text": (2, 2)}.items():
        dtype = str if name == "a/text" else "f8"
        array = group.create_array(name, shape=shape, dtype=dtype)
        if dtype == "f8":
            array[...] = make_stack(*shape)


def test_the_only_stack_of_a_group_is_found(tmp_path: Path) -> None:
    make_group(tmp_path / "g")
    source = open_at(tmp_path / "g")
    assert source.name == "b" and source.shape == (4,)
    for keys in ({"variable": "a/b"}, {"variable": "/a/b"}):
        assert open_at(tmp_path / "g", **keys).identity() == source.identity()
    assert open_at(tmp_path / "g" / "a" / "b").identity() == source.identity()


def test_wrong_variables_are_refused_with_a_listing(tmp_path: Path) -> None:
    make_group(tmp_path / "g")
    refuse(tmp_path / "g", "Did you mean source.variable=a/b?", "(4, 3, 3) float64", variable="a/c")
    refuse(tmp_path / "g", "not square", variable="vector")
    refuse(tmp_path / "g" / "a" / "b", "Did you mean source.variable=b?", variable="c")
    write_array(tmp_path / "g" / "c", make_stack(2, 2))
    refuse(tmp_path / "g", "2 arrays", "source.variable=a/b", "vector", "(2, 2) float64")
    zarr.create_group(str(tmp_path / "none"))
    refuse(tmp_path / "none", "No array", "(no arrays)")


def test_coordinates_and_the_mask_are_not_candidates(tmp_path: Path) -> None:
    values = make_stack(3, 3, 2, 2)
    data = xr.Dataset(
        {"h": (("x", "y", "i", "j"), values), "mask": (("x", "y"), np.eye(3, dtype="i4") + 1)},
        coords={"lat": (("x", "y"), make_stack(3, 3))},
    )
    data.to_zarr(tmp_path / "d", zarr_format=2)
    source = open_at(tmp_path / "d", mask="mask")
    assert source.name == "h" and set(source.coords.variables) == {"lat"}
    refuse(tmp_path / "d", "2 arrays")


def test_named_matrix_dims_choose_the_variable(tmp_path: Path) -> None:
    data = xr.Dataset(
        {"h": (("i", "x", "j"), make_stack(2, 3, 2)), "g": (("x", "y"), make_stack(3, 3))}
    )
    data.to_zarr(tmp_path / "d", zarr_format=2)
    assert open_at(tmp_path / "d").name == "g"
    source = open_at(tmp_path / "d", matrix_dims=["i", "j"])
    assert source.name == "h" and source.shape == (3,)


def test_a_store_of_both_formats_opens_as_v3(tmp_path: Path) -> None:
    values = make_stack(2, 2, 2)
    write_array(tmp_path / "a", values, zarr_format=2)
    array = {"shape": [2, 2, 2], "data_type": "float64", "fill_value": 0.0, "attributes": {}}
    array |= {"zarr_format": 3, "node_type": "array"}
    array |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2, 2]}}}
    array |= {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}}
    array |= {
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        ]
    }
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(array))
    source = open_at(tmp_path / "a")
    np.testing.assert_array_equal(read_all(source), values)
    assert source.identity()["format"] == "zarr 3"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stale_consolidated_metadata_does_not_shorten_the_stack(
    tmp_path: Path, zarr_format: int
) -> None:
    values = make_stack(6, 2, 2)
    data = xr.Dataset({"h": (("t", "i", "j"), values[:4])}, coords={"t": np.arange(4) + 1})
    with warnings.catch_warnings():
        # zarr-python warns that consolidated v3 metadata is not in the specification.
        warnings.simplefilter("ignore")
        data.to_zarr(tmp_path / "d", zarr_format=zarr_format, consolidated=True)
    group = zarr.open_group(str(tmp_path / "d"), use_consolidated=False)
    for name, more in {"h": values[4:], "t": np.array([5, 6])}.items():
        array = group[name]
        assert isinstance(array, zarr.Array)
        array.append(more)
    source = open_at(tmp_path / "d")
    np.testing.assert_array_equal(read_all(source), values)
    np.testing.assert_array_equal(source.coords["t"], [1, 2, 3, 4, 5, 6])


def test_a_transposed_view_is_not_copied(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(2, 3, 2))
    values, _ = (source := open_at(tmp_path / "a", matrix_dims=[2, 0])).read(whole(source))
    assert not values.flags.owndata
