"""Paths that are no store, codecs nobody knows: one clear message each. Identity. `.npy` files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from source_cases import make_stack, open_at, read_all, refuse, whole, write_array

from pipeline.errors import ReadError


def test_paths_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "silicon.zarr").mkdir()
    refuse(tmp_path / "silicon.zarr", "empty folder")
    refuse(tmp_path / "silicn.zarr", "does not exist", "Did you mean", "silicon.zarr?")
    refuse(tmp_path / "no" / "such" / "path", "does not exist", f"In {tmp_path} there is")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("x")
    refuse(tmp_path / "folder", "without Zarr metadata", "notes.txt")
    refuse(tmp_path / "folder" / "notes.txt", "neither a Zarr store nor an .npy file")
    refuse(tmp_path / "folder" / "notes.txt" / "a", "does not exist", "is a file")
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04")
    refuse(tmp_path / "a.zip", "damaged zip archive")
    write_array(tmp_path / "h", make_stack(2, 2))
    refuse(tmp_path / "h" / "zarr.json", "Give its folder")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_unknown_codec(tmp_path: Path, zarr_format: int) -> None:
    write_array(tmp_path / "a", make_stack(2, 2, 2), zarr_format=zarr_format)
    file = tmp_path / "a" / (".zarray" if zarr_format == 2 else "zarr.json")
    metadata = json.loads(file.read_text())
    if zarr_format == 2:
        metadata["compressor"] = {"id": "nobody.knows"}
    else:
        metadata["codecs"][-1] = {"name": "nobody.knows", "configuration": {}}
    file.write_text(json.dumps(metadata))
    refuse(tmp_path / "a", "nobody.knows", "install the package", "(2, 2, 2)", "float64")


def test_an_unknown_data_type(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(2, 2, 2))
    file = tmp_path / "a" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"data_type": "float1"}))
    refuse(tmp_path / "a", "float1", "cannot be opened")


def test_broken_metadata(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(2, 2, 2))
    (tmp_path / "a" / "zarr.json").write_text("{")
    refuse(tmp_path / "a", "metadata unreadable")
    group = zarr.create_group(str(tmp_path / "g"))
    group.create_array("fine", shape=(2, 2), dtype="f8")[...] = 1
    group.create_array("broken", shape=(2, 2), dtype="f8")
    (tmp_path / "g" / "broken" / "zarr.json").write_text("[]")
    assert open_at(tmp_path / "g").name == "fine"
    refuse(tmp_path / "g", "metadata unreadable", variable="broken")


def test_identity_is_independent_of_place_and_time(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "d"))
    array = group.create_array("h", shape=(4, 2, 2), dtype="f8", chunks=(2, 2, 2))
    array[...] = make_stack(4, 2, 2)
    array.attrs["valid_min"] = float("nan")
    keys: dict[str, Any] = {"isel": {"dim_0": [3, 0, 1]}, "missing": "flag"}
    first = open_at(tmp_path / "d", **keys).identity()
    assert json.loads(json.dumps(first)) == first
    assert str(tmp_path) not in json.dumps(first)
    shutil.copytree(tmp_path / "d", tmp_path / "moved")
    assert open_at(tmp_path / "moved" / "h", **keys).identity() == first
    (tmp_path / "d" / "h" / "c" / "note.partial").write_text("x")
    assert open_at(tmp_path / "d", **keys).identity() == first
    assert open_at(tmp_path / "d", units="eV", **keys).identity() == first


def test_identity_changes_with_what_is_read(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "d"))
    for name in ("h", "g"):
        array = group.create_array(name, shape=(4, 2, 2), dtype="f8", chunks=(2, 2, 2))
        array[...] = make_stack(4, 2, 2)
    seen = [open_at(tmp_path / "d", variable="h").identity()]

    def look(**keys: Any) -> None:
        now = open_at(tmp_path / "d", **({"variable": "h"} | keys)).identity()
        assert now not in seen
        seen.append(now)

    look(variable="g")
    look(isel={"dim_0": 1})
    look(isel={"dim_0": "1:"})
    look(isel={"dim_0": [1, 3, 2]})
    look(matrix_dims=[2, 1])
    assert open_at(tmp_path / "d", variable="h", missing="fill").identity() == seen[0]
    group["h"].attrs["units"] = "eV"
    look()
    (tmp_path / "d" / "h" / "c" / "1" / "0" / "0").unlink()
    look(missing="flag")
    look(missing="fill")
    array = group["h"]
    assert isinstance(array, zarr.Array)
    array[2:] = 7
    look()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", ">c16", "i2"])
def test_npy(tmp_path: Path, order: Any, dtype: str) -> None:
    values = make_stack(5, 3, 4, 4, dtype=dtype)
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))
    source = open_at(tmp_path / "a.npy")
    assert source.dims == ("dim_0", "dim_1") and source.row_dim == "component"
    assert source.name == "a" and source.attrs == {} and not source.coords.variables
    got = read_all(source)
    np.testing.assert_array_equal(got, values)
    got[...] = 0
    np.testing.assert_array_equal(read_all(source), values)
    source = open_at(tmp_path / "a.npy", matrix_dims=[3, 2], isel={"dim_0": [4, 1]})
    np.testing.assert_array_equal(read_all(source), values[[4, 1]].swapaxes(2, 3))


def test_npy_is_cut_into_pieces_of_whole_matrices(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1000, 3, 64, 64)))
    source = open_at(tmp_path / "a.npy")
    assert source.chunks[1] == (3,) and source.chunks[0][0] == 10
    assert source.chunk_bytes == 30 * 64 * 64 * 8 <= 2**20
    values, _ = source.read(whole(open_at(tmp_path / "a.npy", isel={"dim_0": "0:5"})))
    assert values.shape == (5, 3, 64, 64)


def test_npy_identity(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", make_stack(5, 2, 2))
    first = open_at(tmp_path / "a.npy").identity()
    (tmp_path / "a.npy").rename(tmp_path / "b.npy")
    assert open_at(tmp_path / "b.npy").identity() == first
    np.save(tmp_path / "a.npy", np.asfortranarray(make_stack(5, 2, 2)))
    assert open_at(tmp_path / "a.npy").identity() != first


def test_npy_files_that_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([[None]]), allow_pickle=True)
    refuse(tmp_path / "o.npy", "cannot be memory-mapped", "np.save")
    np.save(tmp_path / "a.npy", make_stack(40, 30, 10, 10))
    content = (tmp_path / "a.npy").read_bytes()
    source = open_at(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(content[:-100])
    refuse(tmp_path / "a.npy", "cannot be memory-mapped")
    with pytest.raises(ReadError, match="changed its size"):
        source.read(whole(source))
    np.save(tmp_path / "e.npy", np.zeros((0, 3, 3)))
    assert read_all(open_at(tmp_path / "e.npy")).shape == (0, 3, 3)
