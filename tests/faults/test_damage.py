"""Bytes that are not what was written: noticed, named, and mended by the same command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from fault_cases import CHUNK, SERIAL, Program, write_input
from run_cases import read_results

import pipeline
from pipeline.columns import State

BLOCK = 3
CODECS: dict[str, dict[str, Any]] = {
    "crc32c": {"compressors": [zarr.codecs.Crc32cCodec()]},
    "zstd": {"compressors": [zarr.codecs.ZstdCodec(checksum=True)]},
    "blosc": {"compressors": [zarr.codecs.BloscCodec(cname="lz4")]},
}


def flip(path: Path) -> None:
    """Change a bit in the middle of a file, as a failing disk does."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Take the last third of a file away."""
    data = path.read_bytes()
    path.write_bytes(data[: 2 * len(data) // 3])


@pytest.mark.parametrize(
    ("codec", "harm"), [("crc32c", flip), ("zstd", flip), ("crc32c", cut), ("blosc", cut)]
)
def test_an_input_chunk_that_is_damaged(
    program: Program, whole: Path, tmp_path: Path, codec: str, harm: Any
) -> None:
    program.source = write_input(tmp_path / "in.zarr", **CODECS[codec])
    assert program.resume("plan.limit=2") == 0
    chunk = program.source / "H" / "c" / str(BLOCK) / "0" / "0"
    good = chunk.read_bytes()
    harm(chunk)
    code, stderr = program.run(*SERIAL)
    if harm is flip:  # another size is another input, refused before anything is done
        assert code == 1, stderr
        assert f"lost: block {BLOCK}" in stderr and str(Path("c", str(BLOCK))) in stderr
        assert "the same command tries lost blocks again" in stderr
        assert np.flatnonzero(program.states == State.lost).tolist() == [BLOCK]
        found = read_results(program.out)["//eigenvalues"]
        assert np.isnan(found[BLOCK * CHUNK : (BLOCK + 1) * CHUNK]).all()
    else:
        assert code == 2, stderr
        assert "another input" in stderr
    chunk.write_bytes(good)
    assert program.resume() == 0
    program.assert_equals(whole)


def is_of_block(path: Path) -> bool:
    """Whether a file of an output's array holds the block."""
    inside = path.parts[path.parts.index("c") + 1 :]
    return path.is_file() and inside[0] == str(BLOCK)


@pytest.mark.parametrize("name", ["eigenvectors", "eigenvalues", "status"])
def test_an_output_chunk_that_is_cut_short(
    program: Program, whole: Path, tmp_path: Path, name: str
) -> None:
    assert program.resume() == 0
    (chunk,) = (p for p in (program.out / name / "c").rglob("*") if is_of_block(p))
    cut(chunk)
    child = program.call("verify", str(program.out), "--all")
    stdout, stderr = child.communicate(timeout=120)
    assert child.returncode == 1, stderr
    assert "1 blocks, to be written again by the same `run` command" in stdout
    assert np.flatnonzero(program.states == State.lost).tolist() == [BLOCK]
    assert program.resume() == 0
    program.assert_equals(whole)
    assert not pipeline.verify(program.out, sample=None).failed
