"""How results are stored: precision, compression, size of a file; and what is stored is proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from run_cases import assert_equal_results, draw_hermitian, run_here, write_stack

from pipeline.errors import Misuse
from pipeline.verbs.verify import verify

Outputs = Callable[[str], Path]


def read_input(path: Path) -> np.ndarray:
    return np.asarray(zarr.open_array(path, path="H", mode="r")[...])


@pytest.mark.parametrize(
    ("dtype", "values", "vectors"),
    [
        ("float32", "float32", "complex64"),
        ("complex64", "float32", "complex64"),
        ({"vectors": "float32"}, "float64", "complex64"),
        ({"values": "float32"}, "float32", "complex128"),
    ],
)
@pytest.mark.parametrize("way", [(), ("solve.order=descending", "solve.subset=[1,4]")])
def test_rounded_results_are_proved_as_stored(
    stack: Path, outputs: Outputs, dtype: Any, values: str, vectors: str, way: tuple[str, ...]
) -> None:
    done = run_here(
        stack, f"sink.path={outputs('a')}", "solve.vectors=true", *way, sink={"dtype": dtype}
    )
    with xr.open_zarr(done.path, chunks=None) as found:
        assert found["eigenvalues"].dtype == values
        assert found["eigenvectors"].dtype == vectors
        rounded = "eigenvalues" if values == "float32" else "eigenvectors"
        assert "rounded to" in found[rounded].attrs["comment"]
        assert (found["status"] == 0).all()
        # in units of n eps of single precision: rounding alone is a fraction of one
        assert 0.001 < float(found["residual"].max()) < 2
        w, v = found["eigenvalues"].values, found["eigenvectors"].values.astype(complex)
    a = read_input(stack)
    assert np.abs(a @ v - v * w[..., None, :]).max() < 1e-5
    report = verify(done.path, sample=None)
    assert not report.failed and report.worst < 2


@pytest.mark.parametrize("way", [(), ("solve.largest=2",)])
def test_rounded_values_without_vectors(
    stack: Path, outputs: Outputs, way: tuple[str, ...]
) -> None:
    done = run_here(stack, f"sink.path={outputs('a')}", "sink.dtype=float32", *way)
    with xr.open_zarr(done.path, chunks=None) as found:
        assert found["eigenvalues"].dtype == "float32"
        assert 0 < float(found["residual"].max()) < 2
    assert not verify(done.path, sample=None).failed


def test_what_overflows_when_rounded_is_failed(tmp_path: Path, outputs: Outputs) -> None:
    a = draw_hermitian(np.random.default_rng(2), 4, 3)
    a[2] *= 1e50
    stack = write_stack(tmp_path / "big.zarr", a, (2,))
    done = run_here(stack, f"sink.path={outputs('a')}", "solve.vectors=true", "sink.dtype=float32")
    with xr.open_zarr(done.path, chunks=None) as found:
        assert found["status"].values.tolist() == [0, 0, 5, 0]
        assert np.isnan(found["eigenvalues"].values[2]).all()
        assert np.isnan(found["eigenvectors"].values[2]).all()
        assert np.isfinite(found["eigenvalues"].values[[0, 1, 3]]).all()
    assert done.code == 1


@pytest.mark.parametrize("way", [(), ("solve.vectors=true",), ("solve.check=off",)])
def test_what_underflows_when_rounded_is_failed(
    tmp_path: Path, outputs: Outputs, way: tuple[str, ...]
) -> None:
    a = draw_hermitian(np.random.default_rng(2), 4, 3)
    a[2] *= 1e-43
    stack = write_stack(tmp_path / "small.zarr", a, (2,))
    done = run_here(stack, f"sink.path={outputs('a')}", "sink.dtype=float32", *way)
    with xr.open_zarr(done.path, chunks=None) as found:
        good = 9 if "solve.check=off" in way else 0
        assert found["status"].values.tolist() == [good, good, 5, good]
        assert np.isnan(found["eigenvalues"].values[2]).all()
    assert not verify(done.path, sample=None).failed


def test_digits_that_are_not_there_are_refused(tmp_path: Path, outputs: Outputs) -> None:
    a = draw_hermitian(np.random.default_rng(2), 4, 3, dtype="f4")
    stack = write_stack(tmp_path / "single.zarr", a, (2,))
    with pytest.raises(Misuse, match="fewer digits"):
        run_here(stack, f"sink.path={outputs('a')}", "sink.dtype=float64")
    with pytest.raises(Misuse, match=r"sink\.dtype"):
        run_here(stack, f"sink.path={outputs('a')}", "sink.dtype=float16")
    assert not outputs("a").exists()


def test_another_precision_is_another_result(stack: Path, outputs: Outputs) -> None:
    run_here(stack, f"sink.path={outputs('a')}")
    with pytest.raises(Misuse, match="stored"):
        run_here(stack, f"sink.path={outputs('a')}", "sink.dtype=float32")


@pytest.mark.parametrize("compressor", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("array", ["eigenvalues", "eigenvectors"])
def test_every_compressor_gives_the_same_and_notices_damage(
    stack: Path, outputs: Outputs, compressor: str, array: str
) -> None:
    first = run_here(stack, f"sink.path={outputs('a')}", "solve.vectors=true").path
    other = outputs("b")
    run_here(stack, f"sink.path={other}", "solve.vectors=true", f"sink.compressor={compressor}")
    assert_equal_results(first, other)
    file = max((other / array / "c").rglob("*"), key=lambda p: p.is_file() and p.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 4
    file.write_bytes(data)
    with pytest.raises(Exception, match=r"(?i)checksum|crc|decompress"):
        zarr.open_array(other, path=array, mode="r")[...]
    assert verify(other, sample=None).damaged


def test_shards_of_the_size_asked_for(stack: Path, outputs: Outputs) -> None:
    size = 15 * 36 * 16 * 2  # vectors of two stored chunks
    out = run_here(
        stack, f"sink.path={outputs('a')}", "solve.vectors=true", f"sink.shard_bytes={size}"
    ).path
    files = [p for p in (out / "eigenvectors" / "c").rglob("*") if p.is_file()]
    assert len(files) == 4
    assert all(size <= p.stat().st_size <= size + 100 for p in files)
    with pytest.raises(Misuse, match=r"sink\.shard_bytes"):
        run_here(
            stack, f"sink.path={outputs('b')}", "plan.block_bytes=9000", "sink.shard_bytes=9000"
        )
