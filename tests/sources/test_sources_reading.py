"""Reading equals numpy indexing, for all shapes, chunks, orders, positions and selections."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_cases import make_stack, open_at, read_all, whole, write_array

from pipeline.errors import ReadError, StorageLost
from pipeline.plan import Block
from pipeline.sources.chunks import ChunkFiles
from pipeline.sources.watched import WatchedStore


@st.composite
def selections(draw: Any, size: int) -> Any:
    """One value of source.isel for a dimension of this length, and its numpy index."""
    ends = st.integers(-size - 1, size + 1) | st.none()
    steps = st.sampled_from([1, 1, 2, 3, -1, -2])
    start, stop, step = draw(ends), draw(ends), draw(steps)
    kinds = ["all", "text", "mapping"] + (["int", "list"] if size else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "text":
        shown = ["" if v is None else str(v) for v in (start, stop, step)]
        return ":".join(shown), slice(start, stop, step)
    if kind == "mapping":
        return {"start": start, "stop": stop, "step": step}, slice(start, stop, step)
    if kind == "int":
        i = draw(st.integers(-size, size - 1))
        return i, i
    if kind == "list":
        many = draw(st.lists(st.integers(-size, size - 1), max_size=6))
        return many, np.array(many, dtype=int)
    return None, slice(None)


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    """A stack in a store, and a selection of it."""
    batch = draw(st.lists(st.integers(0, 7), max_size=3))
    n = draw(st.integers(1, 4))
    row, column = draw(
        st.tuples(st.integers(0, len(batch) + 1), st.integers(0, len(batch) + 1)).filter(
            lambda p: p[0] != p[1]
        )
    )
    shape = []
    rest = iter(batch)
    for i in range(len(batch) + 2):
        shape.append(n if i in (row, column) else next(rest))
    inner = [draw(st.integers(1, max(1, s))) for s in shape]
    shard = [c * draw(st.integers(1, 3)) for c in inner]
    wanted = [draw(selections(size)) for size in batch]
    return {
        "shape": tuple(shape),
        "matrix_dims": [row, column],
        "inner": tuple(inner),
        "shard": tuple(shard),
        "layout": draw(st.sampled_from(["v2C", "v2F", "v3", "sharded", "transposed"])),
        "dtype": draw(st.sampled_from(["<f8", ">f4", "<c16", ">c8", "<f2", "<i2", "|b1"])),
        "wanted": wanted,
        "cut": [draw(st.tuples(st.floats(0, 1), st.floats(0, 1))) for _ in batch],
        "todo": draw(st.integers(0, 2**16)),
    }


def write_case(path: Path, case: dict[str, Any], values: Any) -> None:
    keys: dict[str, Any] = {"chunks": case["inner"], "compressors": None, "fill_value": 0}
    if case["layout"].startswith("v2"):
        keys |= {"zarr_format": 2, "order": case["layout"][2]}
    elif case["layout"] == "sharded":
        keys |= {"shards": case["shard"]}
    elif case["layout"] == "transposed":
        order = tuple(reversed(range(values.ndim)))
        keys |= {"filters": [zarr.codecs.TransposeCodec(order=order)]}
    if values.dtype.byteorder == ">" and not case["layout"].startswith("v2"):
        keys["serializer"] = zarr.codecs.BytesCodec(endian="big")
        if case["layout"] == "sharded":
            del keys["serializer"]
    write_array(path, values, **keys)


def select(values: Any, case: dict[str, Any]) -> Any:
    moved = np.moveaxis(values, case["matrix_dims"], (-2, -1))
    for axis in reversed(range(moved.ndim - 2)):
        moved = moved[(slice(None),) * axis + (case["wanted"][axis][1],)]
    return moved


@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(case=cases())
def test_reading_equals_numpy(case: dict[str, Any]) -> None:
    values = make_stack(*case["shape"], dtype=case["dtype"])
    with tempfile.TemporaryDirectory() as folder:
        if case["layout"] == "v3" and case["todo"] % 3 == 0:
            path = Path(folder) / "a.npy"
            np.save(path, np.asfortranarray(values) if case["todo"] % 2 else values)
        else:
            path = Path(folder) / "a.zarr"
            write_case(path, case, values)
        names = [i for i in range(values.ndim) if i not in case["matrix_dims"]]
        isel = {
            f"dim_{i}": want
            for i, (want, _) in zip(names, case["wanted"], strict=True)
            if want is not None
        }
        source = open_at(path, matrix_dims=case["matrix_dims"], isel=isel, missing="flag")
        expected = select(values, case).astype(source.dtype)
        source = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(read_all(source), expected)
        start = [int(n * min(c)) for n, c in zip(source.shape, case["cut"], strict=False)]
        stop = [int(n * max(c)) for n, c in zip(source.shape, case["cut"], strict=False)]
        block = Block(3, tuple(start), tuple(stop))
        got, missing = source.read(block)
        np.testing.assert_array_equal(got, expected[block.slices])
        assert missing.shape == block.shape and not missing.any()
        rng = np.random.default_rng(case["todo"])
        todo = rng.random(block.shape) < 0.3
        got, _ = source.read(block, todo)
        np.testing.assert_array_equal(got[todo], expected[block.slices][todo])


def watch_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the chunks that are read from now on, by zarr-python or directly."""
    keys: list[str] = []
    get, read = WatchedStore.get, ChunkFiles._read_chunk

    async def noted_get(self: WatchedStore, key: str, *args: Any, **keywords: Any) -> Any:
        keys.append(key)
        return await get(self, key, *args, **keywords)

    def noted_read(self: ChunkFiles, cell: Any, to: Any) -> None:
        keys.append(self.encoding.name(cell))
        read(self, cell, to)

    monkeypatch.setattr(WatchedStore, "get", noted_get)
    monkeypatch.setattr(ChunkFiles, "_read_chunk", noted_read)
    return keys


@pytest.mark.parametrize("isel", [{}, {"dim_0": [7, 0, 8, 1, 0]}, {"dim_0": "::-3"}])
@pytest.mark.parametrize("masked", [False, True])
def test_a_chunk_is_read_once_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isel: dict[str, Any], masked: bool
) -> None:
    write_array(tmp_path / "a", make_stack(9, 4, 2, 2), chunks=(2, 3, 2, 1))
    source = open_at(tmp_path / "a", isel=isel)
    keys = watch_reads(monkeypatch)
    todo = np.random.default_rng(1).random(source.shape) < 0.4 if masked else None
    source.read(whole(source), todo)
    assert keys and set(Counter(keys).values()) == {1}


def test_wholly_masked_chunks_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_array(tmp_path / "a", make_stack(8, 2, 2), chunks=(2, 2, 2))
    source = open_at(tmp_path / "a")
    keys = watch_reads(monkeypatch)
    source.read(whole(source), np.arange(8) >= 6)
    assert keys == ["c/3/0/0"]


@pytest.mark.parametrize("sharded", [False, True])
def test_a_damaged_chunk_names_itself_and_its_block(tmp_path: Path, sharded: bool) -> None:
    keys = {"shards": (4, 3, 3)} if sharded else {}
    write_array(tmp_path / "a", make_stack(12, 3, 3), chunks=(2, 3, 3), **keys)
    damaged = tmp_path / "a" / "c" / "1" / "0" / "0"
    damaged.write_bytes(damaged.read_bytes()[:20])
    source = open_at(tmp_path / "a")
    with pytest.raises(ReadError, match=r"block 5 \(dim_0 0:8\): chunk c/1/0/0 of .* cannot be"):
        source.read(Block(5, (0,), (8,)))
    values, _ = source.read(Block(6, (8,), (12,)))
    assert np.array_equal(values, make_stack(12, 3, 3)[8:])


@pytest.mark.parametrize("policy", ["error", "flag", "fill"])
def test_a_chunk_that_disappears_is_an_error_never_missing(tmp_path: Path, policy: str) -> None:
    write_array(tmp_path / "a", make_stack(4, 3, 3), chunks=(2, 3, 3))
    source = pickle.loads(pickle.dumps(open_at(tmp_path / "a", missing=policy)))
    (tmp_path / "a" / "c" / "1" / "0" / "0").unlink()
    with pytest.raises(ReadError, match="c/1/0/0"):
        source.read(whole(source))


def test_a_store_that_disappears_is_lost(tmp_path: Path) -> None:
    write_array(tmp_path / "a", make_stack(4, 3, 3))
    source = open_at(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(StorageLost, match="cannot be reached"):
        source.read(whole(source))
