"""Blocks written as files: zarr-python reads back what went in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.shard import ShardWriter, write_whole


@st.composite
def arrays(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Extents of an array, of its shards, and of the chunks in them."""
    ndim = draw(st.integers(0, 3))
    inner = draw(st.tuples(*[st.integers(1, 3)] * ndim))
    shard = tuple(c * draw(st.integers(1, 3)) for c in inner)
    return draw(st.tuples(*[st.integers(1, 8)] * ndim)), shard, inner


@given(
    arrays(),
    st.sampled_from(["float64", "float32", "complex64", "complex128", "uint8"]),
    st.sampled_from(["auto", None, "blosc"]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_zarr_reads_what_was_written(
    extents: Any, dtype: str, compressor: str | None, seed: int
) -> None:
    shape, shard, inner = extents
    rng = np.random.default_rng(seed)
    fill: Any = 7 if dtype == "uint8" else complex("nan") if dtype[0] == "c" else float("nan")
    values = rng.integers(0, 9, shape).astype(dtype)
    values[rng.random(shape) < 0.6] = fill
    with tempfile.TemporaryDirectory() as folder:
        stored = zarr.create_array(
            folder,
            shape=shape,
            dtype=dtype,
            chunks=inner,
            shards=shard if shard != inner else None,
            compressors=zarr.codecs.BloscCodec() if compressor == "blosc" else compressor,
            fill_value=fill,
            overwrite=True,
        )
        writer = ShardWriter.of(stored, Path(folder))
        for _ in range(2):  # the second time over what is there
            for corner in np.ndindex(*(-(-n // s) for n, s in zip(shape, shard, strict=True))):
                start = tuple(i * s for i, s in zip(corner, shard, strict=True))
                place = tuple(slice(a, a + s) for a, s in zip(start, shard, strict=True))
                writer.write(start, np.asarray(values[place]))
            assert np.array_equal(stored[...], values, equal_nan=dtype != "uint8")
        assert not list(Path(folder).rglob("*.partial"))


def test_many_buffers_are_one_file(tmp_path: Path) -> None:
    parts = [bytes([i % 256]) * (i % 5) for i in range(3000)]
    write_whole(tmp_path / "a" / "b", parts)
    assert (tmp_path / "a" / "b").read_bytes() == b"".join(parts)
