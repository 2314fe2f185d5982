"""Chunks read straight from their files: the same as zarr-python reads, or left to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from pipeline.errors import ReadError
from pipeline.plan import Block
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source
from pipeline.sources.chunks import read_zstd_size

CASES: dict[str, dict[str, Any]] = {
    "v3 zstd": {"compressors": ZstdCodec(level=1)},
    "v3 zstd with a checksum": {"compressors": ZstdCodec(level=1, checksum=True)},
    "v3 blosc": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle")},
    "v3 gzip": {"compressors": GzipCodec(level=1)},
    "v3 plain": {"compressors": None},
    "v2 zstd": {"zarr_format": 2, "compressors": numcodecs.Zstd(1)},
    "v2 blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc("zstd", shuffle=2)},
    "v2 plain": {"zarr_format": 2, "compressors": None},
}


def write(folder: Path, name: str, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 7, 3, 3)).astype(dtype)
    stored = zarr.create_array(
        folder / "in.zarr", shape=a.shape, chunks=(2, 3, 3, 3), dtype=dtype, **CASES[name]
    )
    stored[...] = a
    return a


def read(folder: Path, start: tuple[int, int], stop: tuple[int, int]) -> Any:
    source = open_source(SourceConfig(path=str(folder / "in.zarr")))
    return source, source.read(Block(0, start, stop))[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_whole_chunks_are_read_directly(
    name: str, dtype: str, tmp_path: Path, monkeypatch: Any
) -> None:
    a = write(tmp_path, name, dtype)
    source = open_source(SourceConfig(path=str(tmp_path / "in.zarr")))

    def refuse(*_: Any) -> None:
        raise AssertionError("read by zarr-python")

    monkeypatch.setattr(zarr.Array, "get_orthogonal_selection", refuse)
    for start, stop in [((0, 0), (5, 7)), ((2, 3), (4, 6)), ((4, 6), (5, 7)), ((0, 3), (2, 7))]:
        got = source.read(Block(0, start, stop))[0]
        assert np.array_equal(got, a[start[0] : stop[0], start[1] : stop[1]])


@pytest.mark.parametrize("name", CASES)
def test_parts_of_chunks_are_left_to_zarr(name: str, tmp_path: Path) -> None:
    a = write(tmp_path, name)
    for start, stop in [((1, 0), (5, 7)), ((0, 1), (2, 2)), ((3, 5), (4, 6))]:
        got = read(tmp_path, start, stop)[1]
        assert np.array_equal(got, a[start[0] : stop[0], start[1] : stop[1]])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("damage", ["cut", "longer", "empty"])
def test_damage_is_noticed(name: str, damage: str, tmp_path: Path) -> None:
    """An error, or what zarr-python reads where it is content; it reads beyond the end of a Blosc
    chunk that was cut short, which we must not."""
    write(tmp_path, name)
    chunks = [f for f in (tmp_path / "in.zarr").rglob("*") if f.is_file() and f.suffix != ".json"]
    chunk = next(f for f in sorted(chunks) if not f.name.startswith(".z"))
    data = chunk.read_bytes()
    chunk.write_bytes({"cut": data[:-9], "longer": data + b"12345678", "empty": b""}[damage])
    try:
        expected = zarr.open_array(tmp_path / "in.zarr", mode="r")[...]
    except Exception:
        expected = None
    if damage == "cut" and "blosc" in name:
        expected = None
    try:
        got = read(tmp_path, (0, 0), (5, 7))[1]
    except Exception as error:
        assert expected is None, error
    else:
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", [name for name in CASES if "blosc" in name])
def test_a_part_of_a_chunk_cut_short_is_noticed(name: str, tmp_path: Path) -> None:
    write(tmp_path, name)
    chunk = tmp_path / "in.zarr" / ("c/0/0/0/0" if "v3" in name else "0.0.0.0")
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(ReadError, match=r"chunk c?.?0.0.0.0 of .*says that it has"):
        read(tmp_path, (1, 0), (2, 1))


@pytest.mark.parametrize("name", [name for name in CASES if "plain" not in name])
def test_a_chunk_of_too_few_numbers_is_damage(name: str, tmp_path: Path) -> None:
    """Its numbers would otherwise be followed by whatever lay in memory."""
    write(tmp_path, name)
    chunk = tmp_path / "in.zarr" / ("c/0/0/0/0" if "v3" in name else "0.0.0.0")
    kind = name.split()[1]
    codec = {"zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc(), "gzip": numcodecs.GZip()}[kind]
    chunk.write_bytes(codec.encode(np.zeros(50)))
    with pytest.raises(ReadError, match=r"0.0.0.0"):
        read(tmp_path, (0, 0), (4, 6))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65791, 65792, 200_000])
def test_a_frame_says_how_much_it_holds(size: int) -> None:
    for checksum in (False, True):
        frame = numcodecs.Zstd(1, checksum).encode(np.zeros(size, np.uint8))
        assert read_zstd_size(bytes(frame[:16])) == size


def test_a_frame_need_not_say_how_much_it_holds(tmp_path: Path) -> None:
    a = write(tmp_path, "v3 zstd")
    numbers = np.zeros((2, 3, 3, 3))
    numbers[:, :, :, :] = a[:2, :3]
    raw = numbers.tobytes()
    block = (len(raw) << 3 | 1).to_bytes(3, "little")  # the last one, as it is
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, 0x58]) + block + raw
    assert read_zstd_size(frame[:16]) is None
    (tmp_path / "in.zarr" / "c/0/0/0/0").write_bytes(frame)
    assert np.array_equal(read(tmp_path, (0, 0), (2, 3))[1], a[:2, :3])
