"""However many workers of whatever kind, and however the stack is cut: the same bits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zarr
from fault_cases import JOB, MATRICES, Program, write_input
from run_cases import assert_equal_results, read_results, run_here

CORES = 4
SIZES = {"parts of a chunk": 576, "a chunk": 1152, "five chunks": 5760}
ALLOW = "run.max_bad=2"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input with a NaN and with a matrix that is not Hermitian."""
    path = write_input(tmp_path_factory.mktemp("mixed") / "in.zarr")
    array = zarr.open_array(path, path="H", mode="r+")
    array[3, 0, 1], array[11, 0, 1] = float("nan"), 7.0
    return path


@pytest.fixture(scope="module")
def first(mixed: Path) -> Path:
    """The result with which all others are compared: no parts, no workers."""
    out = mixed.with_name("first.zarr")
    outcome = run_here(mixed, f"sink.path={out}", *JOB, ALLOW, "plan.block_bytes=1MiB")
    assert outcome.verdict.counts["ok"] == MATRICES - 2
    assert "/spectrum/dos" in read_results(out)
    return out


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_in_this_process(
    mixed: Path,
    first: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: str,
    workers: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)))
    crew = [f"cluster.workers={workers}", "cluster=threads"] if workers else ["cluster=serial"]
    where = (f"sink.path={tmp_path / 'out.zarr'}", f"plan.block_bytes={SIZES[size]}")
    out = run_here(mixed, *JOB, ALLOW, *where, *crew).path
    assert_equal_results(out, first)


@pytest.mark.parametrize(
    ("workers", "size"),
    [(1, "a chunk"), *[(2, size) for size in SIZES], (4, "a chunk")],
)
def test_in_processes_of_their_own(
    mixed: Path, first: Path, tmp_path: Path, workers: int, size: str
) -> None:
    program = Program(mixed, tmp_path / "out.zarr")
    crew = ("cluster=local", f"cluster.workers={workers}")
    code, stderr = program.run(*crew, f"plan.block_bytes={SIZES[size]}", ALLOW, cores=CORES)
    assert code == 0, stderr
    assert f"local, {workers} x 1 threads" in stderr
    assert_equal_results(program.out, first)
