"""A thousand trials of which four are bad; and a stack that is bad throughout."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from reference_store import EPS, measure_pairs, run_stack, write_stack

import pipeline
from pipeline.__main__ import main

COUNT, CHANNELS, FIRST = 1000, 6, 7000
NAN, INF, SKEW, ABSENT = 113, 500, 871, 642
FLAGS = {NAN: "nonfinite", INF: "nonfinite", SKEW: "not_hermitian", ABSENT: "missing"}
CODES = {"nonfinite": 2, "not_hermitian": 3, "missing": 4}


def make_trials(count: int = COUNT) -> NDArray[Any]:
    """Covariances of random signals; their entries are of order one."""
    signals = np.random.default_rng(5).normal(size=(count, CHANNELS, 40))
    return signals @ signals.swapaxes(1, 2) / 40


def write_trials(path: Path, matrices: NDArray[Any], chunk: int) -> Path:
    count = len(matrices)
    subjects = np.array([f"S{i % 7}" for i in range(count)], dtype=object)
    return write_stack(
        path,
        "covariance",
        matrices,
        ("trial", "channel", "channel_other"),
        units="uV^2",
        coords={"trial": np.arange(FIRST, FIRST + count), "subject": ("trial", subjects)},
        chunks=(chunk, CHANNELS, CHANNELS),
    )


@pytest.fixture(scope="module")
def trials() -> NDArray[Any]:
    return make_trials()


@pytest.fixture(scope="module")
def store(trials: NDArray[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chunks of one matrix; three hold what they should not, one is not there."""
    spoilt = trials.copy()
    spoilt[NAN, 2, 1] = spoilt[NAN, 1, 2] = np.nan
    spoilt[INF, 3, 3] = np.inf
    spoilt[SKEW, 0, 4] += 1e-9
    path = write_trials(tmp_path_factory.mktemp("thousand") / "in.zarr", spoilt, 1)
    chunk = path / "covariance" / "c" / str(ABSENT)
    assert chunk.is_dir()
    shutil.rmtree(chunk)
    return path


def check_answers(tree: xr.DataTree, trials: NDArray[Any]) -> None:
    """Four flags with NaN rows, and 996 answers that are right."""
    expected = np.zeros(COUNT, int)
    for at, flag in FLAGS.items():
        expected[at] = CODES[flag]
    good = expected == 0
    assert good.sum() == 996
    np.testing.assert_array_equal(tree.status, expected)
    values, vectors = tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy()
    assert np.isnan(values[~good]).all() and np.isnan(vectors[~good]).all()
    np.testing.assert_allclose(values[good], np.linalg.eigvalsh(trials[good]), rtol=0, atol=1e-14)
    worst = measure_pairs(trials[good], values[good], vectors[good])
    assert max(worst) < 4 * CHANNELS * EPS
    np.testing.assert_array_equal(tree.trial, np.arange(FIRST, FIRST + COUNT))


@pytest.mark.parametrize("cluster", ["serial", "threads"])
def test_four_bad_ones(
    cluster: str,
    store: Path,
    trials: NDArray[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Flagged, named by their coordinates, exit 1; four allowed, exit 0."""
    out = tmp_path / "out.zarr"
    words = ["run", f"source.path={store}", "source.missing=flag", "solve.vectors=true"]
    words += [f"sink.path={out}", f"cluster={cluster}"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(out)
    named = dict(re.findall(r"^\w+: trial\[(\d+)\]: trial=(\d+)", said.err, re.MULTILINE))
    assert named == {str(at): str(FIRST + at) for at in FLAGS}
    for at, flag in FLAGS.items():
        line = next(line for line in said.err.splitlines() if f"trial={FIRST + at}" in line)
        assert line.startswith(flag) and f"subject=S{at % 7}" in line
    assert "996 ok" in said.err and "stopped early" not in said.err
    assert f"trial={FIRST + NAN}" in Path(f"{out}.log").read_text(encoding="utf-8")
    check_answers(pipeline.open(out), trials)
    assert main([*words, "run.max_bad=4"]) == 0  # finished: judged anew, not solved anew
    assert main([*words, "run.max_bad=3"]) == 1
    fresh = [word for word in words if not word.startswith("sink")]
    assert main([*fresh, f"sink.path={tmp_path / 'again.zarr'}", "run.max_bad=4"]) == 0
    check_answers(pipeline.open(tmp_path / "again.zarr"), trials)


def test_an_absent_chunk_is_refused_unless_told(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.zarr"
    assert main(["run", f"source.path={store}", f"sink.path={out}", "cluster=serial"]) == 2
    said = capsys.readouterr().err
    for word in (f"{FIRST + ABSENT}", "source.missing=flag", "source.missing=fill"):
        assert word in said
    assert not out.exists()


def test_processes_give_the_same_bits(store: Path, trials: NDArray[Any], tmp_path: Path) -> None:
    """Two worker processes, eight blocks or more."""
    trees = [
        run_stack(
            store,
            source={"missing": "flag"},
            solve={"vectors": True},
            plan={"block_bytes": 100 * CHANNELS**2 * 8},
            cluster=cluster,
            sink={"path": str(tmp_path / f"{number}.zarr")},
        )
        for number, cluster in enumerate(["serial", {"kind": "local", "workers": 2}])
    ]
    check_answers(trees[1], trials)
    assert trees[1].run.sizes["block"] >= 8
    for name in ("eigenvalues", "eigenvectors", "residual", "status"):
        np.testing.assert_array_equal(*(tree[name].to_numpy() for tree in trees))


@pytest.mark.parametrize("cluster", ["serial", "threads"])
def test_a_stack_bad_throughout_stops_early(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One triangle alone is filled: the run says so after the first thousand, and how to go on."""
    filled = make_trials(4000)
    store = write_trials(tmp_path / "in.zarr", np.tril(filled), 100)
    out = tmp_path / "out.zarr"
    words = ["run", f"source.path={store}", f"sink.path={out}", f"cluster={cluster}"]
    words += ["plan.block_bytes=32 KiB"]
    assert main(words) == 1
    said = capsys.readouterr().err
    for word in ("stopped early", "not_hermitian", "solve.hermitian=lower"):
        assert word in said
    status = pipeline.open(out).status.to_numpy()
    flagged = (status == CODES["not_hermitian"]).sum()
    assert 1000 <= flagged < 2000
    assert (status == 7).sum() == 4000 - flagged  # not_run
    remedy = [word for word in words if not word.startswith("sink")]
    assert main([*remedy, f"sink.path={tmp_path / 'b.zarr'}", "solve.hermitian=lower"]) == 0
    values = pipeline.open(tmp_path / "b.zarr").eigenvalues.to_numpy()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(filled), rtol=0, atol=1e-14)


def test_it_goes_on_where_so_many_may_be_bad(tmp_path: Path) -> None:
    """`run.max_bad` says that this is expected: then the whole stack is looked at."""
    matrices = make_trials(1500)
    matrices[:1400, 0, 1] += 1
    store = write_trials(tmp_path / "in.zarr", matrices, 100)
    tree = run_stack(store, run={"max_bad": 0.95}, plan={"block_bytes": "32 KiB"})
    assert (tree.status == CODES["not_hermitian"]).sum() == 1400
    assert (tree.status == 0).sum() == 100
