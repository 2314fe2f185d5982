"""Absent chunks: refused and named, flagged, or filled; a wrong separator is never zeros."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from source_cases import make_stack, open_at, read_all, refuse, whole, write_array

from pipeline.plan import Block
from pipeline.sources.shards import find_layout, read_present

VALUES = make_stack(6, 3, 3)


def write_with_gap(path: Path, kind: str) -> str:
    """A stack whose matrices 2 and 3 are not stored; gives the name of what is absent."""
    values = VALUES.copy()
    values[2:4] = 0
    keys: dict[str, Any] = {"chunks": (2, 3, 3), "fill_value": 0}
    if kind.startswith("v2"):
        keys |= {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": kind[2]}}
    if kind == "sharded":
        keys["shards"] = (4, 3, 3)
    write_array(path, values, **keys)
    (path / "1.0.0.0123abc.partial").write_bytes(b"left by a killed writer")
    names = {"v2.": "1.0.0", "v2/": "1/0/0", "v3": "c/1/0/0"}
    return names.get(kind, "c/0/0/0 (inner chunk (1, 0, 0) of this shard)")


@pytest.mark.parametrize("kind", ["v2.", "v2/", "v3", "sharded"])
def test_the_three_policies(tmp_path: Path, kind: str) -> None:
    name = write_with_gap(tmp_path / "a", kind)
    refuse(tmp_path / "a", "1 of 3 chunks", f"{name}: dim_0 2:4", "zero background", "flag", "0.0")
    filled = read_all(open_at(tmp_path / "a", missing="fill"))
    assert not filled[2:4].any() and np.array_equal(filled[4:], VALUES[4:])
    source = pickle.loads(pickle.dumps(open_at(tmp_path / "a", missing="flag")))
    values, missing = source.read(whole(source))
    assert missing.tolist() == [False, False, True, True, False, False]
    np.testing.assert_array_equal(values[~missing], VALUES[~missing])
    assert not values[missing].any()
    _, missing = source.read(Block(1, (3,), (5,)))
    assert missing.tolist() == [True, False]


@pytest.mark.parametrize("kind", ["v3", "sharded"])
def test_only_what_is_selected_and_not_masked_matters(tmp_path: Path, kind: str) -> None:
    write_with_gap(tmp_path / "a", kind)
    for isel in ({"dim_0": "0:2"}, {"dim_0": [5, 0]}, {"dim_0": "::5"}, {"dim_0": 4}):
        source = open_at(tmp_path / "a", isel=isel)
        assert source.chunks == (() if isel == {"dim_0": 4} else source.chunks)
        read_all(source)
    refuse(tmp_path / "a", "1 of 3 chunks", isel={"dim_0": 3})
    mask = np.array([1, 1, 0, 0, 1, 1], dtype=bool)
    np.save(tmp_path / "mask.npy", mask)
    source = open_at(tmp_path / "a", mask=str(tmp_path / "mask.npy"))
    values, missing = source.read(whole(source), source.todo(whole(source)))
    assert not missing.any() and np.array_equal(values[mask], VALUES[mask])
    np.save(tmp_path / "mask.npy", ~mask)
    refuse(tmp_path / "a", "1 of 3 chunks", mask=str(tmp_path / "mask.npy"))


def test_a_matrix_partly_in_an_absent_chunk_is_missing(tmp_path: Path) -> None:
    values = make_stack(2, 4, 4)
    values[1, 2:, 2:] = 0
    write_array(tmp_path / "a", values, chunks=(1, 2, 2))
    _, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert missing.tolist() == [False, True]
    refuse(tmp_path / "a", "1 of 8 chunks", "c/1/1/1: dim_0 1:2")


def test_two_batch_dimensions_and_matrix_in_front(tmp_path: Path) -> None:
    values = make_stack(2, 4, 2, 6)
    values[:, 2:, :, 3:] = 0
    write_array(tmp_path / "a", values, chunks=(2, 2, 2, 3))
    source = open_at(tmp_path / "a", missing="flag", matrix_dims=[0, 2], isel={"dim_3": "::-1"})
    _, missing = source.read(whole(source))
    expected = np.zeros((4, 6), dtype=bool)
    expected[2:, :3] = True
    np.testing.assert_array_equal(missing, expected)
    source = open_at(tmp_path / "a", missing="flag", matrix_dims=[0, 2], isel={"dim_3": 4})
    _, missing = source.read(whole(source))
    np.testing.assert_array_equal(missing, expected[:, 1])


def test_coordinates_are_named_and_the_list_is_cut(tmp_path: Path) -> None:
    data = xr.Dataset(
        {"h": (("site", "i", "j"), np.zeros((12, 2, 2), dtype="c16"))},
        coords={"site": [f"s{i}" for i in range(12)]},
    )
    encoding = {"h": {"chunks": (1, 2, 2), "_FillValue": None}}
    data.to_zarr(tmp_path / "d", zarr_format=2, encoding=encoding)
    for file in (tmp_path / "d" / "h").glob("[0-9]*"):
        file.unlink()
    message = refuse(tmp_path / "d", "12 of 12 chunks", "0.0.0: site 0:1 ('s0' to 's0')")
    assert "... and 2 more" in message and message.count("site ") == 10


def test_a_single_absent_matrix(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "a"), shape=(2, 2), dtype="f8", fill_value=7)
    refuse(tmp_path / "a", "the single matrix", "as 7.0")
    assert (read_all(open_at(tmp_path / "a", missing="fill")) == 7).all()
    values, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    assert missing.shape == () and missing and (values == 7).all()


def test_null_fill_value_reads_as_zero(tmp_path: Path) -> None:
    write_with_gap(tmp_path / "a", "v2.")
    file = tmp_path / "a" / ".zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"fill_value": None}))
    refuse(tmp_path / "a", "read them as 0")
    assert not read_all(open_at(tmp_path / "a", missing="fill"))[2:4].any()


@pytest.mark.parametrize("policy", ["error", "flag", "fill"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_wrong_separator_is_refused_under_every_policy(
    tmp_path: Path, zarr_format: int, policy: str
) -> None:
    write_array(tmp_path / "a", VALUES, chunks=(2, 3, 3), zarr_format=zarr_format)
    file = tmp_path / "a" / (".zarray" if zarr_format == 2 else "zarr.json")
    metadata = json.loads(file.read_text())
    if zarr_format == 2:
        metadata["dimension_separator"] = "/"
    else:
        metadata["chunk_key_encoding"]["configuration"]["separator"] = "."
    file.write_text(json.dumps(metadata))
    refuse(tmp_path / "a", "dimension separator", "0.0.0", "3 chunks are absent", missing=policy)


def test_a_ragged_shard_needs_no_chunks_beyond_the_edge(tmp_path: Path) -> None:
    values = make_stack(5, 2, 2)
    write_array(tmp_path / "a", values, chunks=(1, 2, 2), shards=(4, 2, 2))
    np.testing.assert_array_equal(read_all(open_at(tmp_path / "a")), values)


def test_a_damaged_index_is_not_taken_for_absent_chunks(tmp_path: Path) -> None:
    write_with_gap(tmp_path / "a", "sharded")
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    layout, _ = find_layout(
        json.loads((tmp_path / "a" / "zarr.json").read_text())["codecs"], (4, 3, 3)
    )
    assert layout is not None
    present = read_present(shard, layout)
    assert present is not None and present.ravel().tolist() == [True, False]
    content = bytearray(shard.read_bytes())
    content[-10] ^= 1
    shard.write_bytes(content)
    assert read_present(shard, layout) is None
    shard.write_bytes(content[:10])
    assert read_present(shard, layout) is None
    open_at(tmp_path / "a")


def test_shards_with_a_transpose_around_them(tmp_path: Path) -> None:
    values = make_stack(9, 13, 2, 2)
    values[:4, 2:4] = 0
    codecs = [
        zarr.codecs.TransposeCodec(order=(1, 0, 2, 3)),
        zarr.codecs.ShardingCodec(chunk_shape=(2, 4, 2, 2)),
    ]
    with pytest.warns(UserWarning, match="sharding"):
        array = zarr.create(
            store=str(tmp_path / "a"), shape=values.shape, chunks=(4, 8, 2, 2), dtype="f8",
            codecs=codecs, fill_value=0,
        )  # fmt: skip
    array[...] = values
    got, missing = (source := open_at(tmp_path / "a", missing="flag")).read(whole(source))
    expected = np.zeros((9, 13), dtype=bool)
    expected[:4, 2:4] = True
    np.testing.assert_array_equal(missing, expected)
    np.testing.assert_array_equal(got, values)
    # Such shards can only be decoded whole.
    assert source.chunks == ((4, 4, 1), (8, 5))


def test_shards_whose_index_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = VALUES.copy()
    values[2:4] = 0
    codecs = [zarr.codecs.ShardingCodec(chunk_shape=(2, 3, 3)), zarr.codecs.GzipCodec()]
    with pytest.warns(UserWarning, match="sharding"):
        array = zarr.create(
            store=str(tmp_path / "a"), shape=values.shape, chunks=(6, 3, 3), dtype="f8",
            codecs=codecs, fill_value=0,
        )  # fmt: skip
    array[...] = values
    np.testing.assert_array_equal(read_all(open_at(tmp_path / "a")), values)
    assert "wrapped in gzip" in caplog.text
