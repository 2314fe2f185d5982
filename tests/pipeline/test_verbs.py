"""What the verbs print and return, called in this process through the program's own entry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from run_cases import configure, draw_hermitian, read_results, run_here, write_stack

from pipeline.__main__ import main
from pipeline.columns import State
from pipeline.lease import Lease, describe_self
from pipeline.ledger import Ledger
from pipeline.progress import Progress, format_bytes, format_seconds

Outputs = Callable[[str], Path]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def finished(stack: Path, outputs: Outputs) -> Path:
    """A finished run with vectors, of 8 blocks."""
    keys = (f"sink.path={outputs('out')}", "solve.vectors=true", "plan.block_bytes=9000")
    return run_here(stack, *keys).path


def damage(path: Path, name: str, index: tuple[int, ...], change: float) -> None:
    """Change one stored number."""
    array = zarr.open_array(path, path=name, mode="r+")
    array[index] = array[index] + change


def test_run_prints_the_output_last(stack: Path, outputs: Outputs, capsys: Capture) -> None:
    assert main(["run", f"source.path={stack}", f"sink.path={outputs('a')}"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{outputs('a')}\n"
    assert "result: 120 ok" in captured.err


def test_launches_without_a_path_each_get_a_folder(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for _ in range(3):
        assert main(["run", f"source.path={stack}", "cluster=serial"]) == 0
    captured = capsys.readouterr()
    paths = captured.out.split()
    assert len(set(paths)) == 3
    assert all(Path(p).parent.parent == work / "outputs" for p in paths)
    assert f"to resume: sink.path={paths[0]}" in captured.err
    assert [p.name for p in work.iterdir()] == ["outputs"]
    assert sorted(p.name for p in Path(paths[0]).parent.iterdir()) == [
        "result.zarr",
        "result.zarr.log",
        "result.zarr.yaml",
    ]


def test_a_launch_that_is_refused_leaves_no_folder(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert main(["run", f"source.path={stack}", "cluster.memory=60MiB"]) == 2
    assert not list(work.rglob("*.zarr"))


def test_a_multirun_goes_on_after_a_failed_member(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "-m", f"source.path={stack}", "cluster=serial", "solve.largest=2,40,3"]
    assert main(words) == 2
    assert len(capsys.readouterr().out.split()) == 2


def test_plan_writes_nothing(stack: Path, tmp_path: Path, capsys: Capture) -> None:
    before = sorted(tmp_path.rglob("*"))
    keys = ["plan.block_bytes=9000", "cluster=local", "cluster.workers=2", "solve.vectors=true"]
    assert main(["plan", f"source.path={stack}", *keys]) == 0
    text = capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before
    assert "(k0: 12, k1: 10) of 6 x 6" in text
    assert "blocks    8 of (3, 5) matrices" in text
    assert "2 (local) x 1 threads" in text
    assert "driver lanes" in text and "time      about" in text


def test_status_of_a_finished_run(finished: Path, capsys: Capture) -> None:
    assert main(["status", str(finished)]) == 0
    text = capsys.readouterr().out
    assert "state     finished" in text
    assert "8 of 8 done" in text and "120 ok" in text


def test_status_tells_running_from_died(finished: Path, capsys: Capture) -> None:
    column = finished / "run" / "state" / "c" / "0"
    column.write_bytes(bytes([State.done] * 3 + [State.todo] * 5))
    with Lease(finished / "run" / "state") as lease:
        assert main(["status", str(finished)]) == 0
        assert f"running: process {os.getpid()}" in capsys.readouterr().out
        number = lease.number
    dead = replace(describe_self(), born="1")
    (finished / "run" / "state" / f"lease.{number}").write_text(json.dumps(asdict(dead)))
    assert main(["status", str(finished)]) == 0
    text = capsys.readouterr().out
    assert "died:" in text and "3 of 8 done" in text


@pytest.mark.parametrize("verb", ["status", "verify", "analyse"])
def test_what_is_no_output_is_refused(tmp_path: Path, verb: str, capsys: Capture) -> None:
    assert main([verb, str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main([verb, str(tmp_path)]) == 2
    assert "is not an Eigenstream output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "index"),
    [("eigenvalues", (4, 4, 3)), ("eigenvectors", (11, 9, 5, 0)), ("eigenvectors", (0, 0, 0, 5))],
)
def test_verify_finds_one_number_that_is_off(
    finished: Path, capsys: Capture, name: str, index: tuple[int, ...]
) -> None:
    assert main(["verify", str(finished), "--all"]) == 0
    assert "120 matrices" in capsys.readouterr().out
    damage(finished, name, index, 1e-9)
    assert main(["verify", str(finished), "--all"]) == 1
    text = capsys.readouterr().out
    assert (
        f"FAILED    k0[{index[0]}], k1[{index[1]}]: k0={index[0] / 8:g}, k1={index[1] / 8:g}"
        in text
    )
    assert "1 failed" in text


@pytest.mark.parametrize("keys", [[], ["solve.largest=2"], ["solve.order=descending"]])
def test_verify_without_vectors_solves_again(
    stack: Path, outputs: Outputs, keys: list[str], capsys: Capture
) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", *keys).path
    assert main(["verify", str(out), "--sample", "50"]) == 0
    damage(out, "eigenvalues", (4, 4, 1), 1e-10)
    assert main(["verify", str(out), "--all"]) == 1
    assert "FAILED    k0[4], k1[4]" in capsys.readouterr().out


@pytest.mark.parametrize("hermitian", ["lower", "upper", "average"])
def test_verify_judges_what_was_solved(
    tmp_path: Path, outputs: Outputs, hermitian: str, capsys: Capture
) -> None:
    a = np.random.default_rng(0).standard_normal((7, 5, 5)) * (1 + 0.5j)
    path = write_stack(tmp_path / "in.zarr", a, (2,))
    for vectors in ("true", "false"):
        out = outputs(vectors)
        keys = (f"sink.path={out}", f"solve.vectors={vectors}", f"solve.hermitian={hermitian}")
        assert run_here(path, *keys).code == 0
        assert main(["verify", str(out), "--all"]) == 0, capsys.readouterr().out


def test_verify_finds_a_truncated_output(finished: Path, capsys: Capture) -> None:
    chunk = finished / "eigenvalues" / "c" / "0" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    assert main(["verify", str(finished), "--all"]) == 1
    assert "FAILED    block 1" in capsys.readouterr().out


def test_verify_takes_an_input_that_moved(finished: Path, stack: Path, tmp_path: Path) -> None:
    moved = stack.rename(tmp_path / "moved.zarr")
    assert main(["verify", str(finished)]) == 2
    assert main(["verify", str(finished), f"source.path={moved}"]) == 0


def test_verify_leaves_flagged_matrices_out(
    tmp_path: Path, outputs: Outputs, capsys: Capture
) -> None:
    a = draw_hermitian(np.random.default_rng(0), 9, 4)
    a[3] = np.nan
    path = write_stack(tmp_path / "in.zarr", a, (3,))
    out = run_here(path, f"sink.path={outputs('a')}").path
    assert main(["verify", str(out), "--all"]) == 0
    assert "8 matrices" in capsys.readouterr().out


def test_analyse_redoes_the_spectrum_and_nothing_else(
    stack: Path, outputs: Outputs, capsys: Capture
) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "spectrum=dos", "spectrum.width=0.1").path
    before = read_results(out)
    marks = Ledger(out).columns["finished"]
    (stack / "H").rename(stack / "gone")  # the input is not needed
    assert main(["analyse", str(out), "spectrum.width=0.3", "spectrum.electrons=6"]) == 0
    after = read_results(out)
    assert float(after["/spectrum/broadening"]) == 0.3
    assert "/spectrum/fermi_level" in after
    assert (Ledger(out).columns["finished"] == marks).all()
    for name in ("eigenvalues", "residual", "status"):
        assert before[f"//{name}"].tobytes() == after[f"//{name}"].tobytes()
    with xr.open_datatree(out, engine="zarr") as tree:
        energy = tree["spectrum"]["energy"]
        states = float(tree["spectrum"]["dos"].integrate("energy"))
        assert abs(states - 6) < 1e-6 and energy.attrs["units"] == "eV"


def test_analyse_says_what_is_missing(stack: Path, outputs: Outputs, capsys: Capture) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "sink.variables=[residual]").path
    assert main(["analyse", str(out)]) == 2
    assert "spectrum=dos" in capsys.readouterr().err
    assert main(["analyse", str(out), "spectrum=dos"]) == 2
    assert "eigenvalues" in capsys.readouterr().err
    assert main(["analyse", str(out), "solve.largest=2"]) == 2


def test_an_unforeseen_error_is_one_line_and_a_traceback_in_the_log(
    stack: Path, outputs: Outputs, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from pipeline import run as module

    def fail(*_: object) -> None:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(module, "start_crew", fail)
    out = outputs("a")
    assert main(["run", f"source.path={stack}", f"sink.path={out}"]) == 4
    err = capsys.readouterr().err
    assert "ZeroDivisionError: by accident" in err and "Traceback" not in err
    assert "Traceback" in out.with_name("a.zarr.log").read_text()
    monkeypatch.undo()
    assert main(["run", f"source.path={stack}", f"sink.path={out}"]) == 0


def test_python_calls_give_the_same(stack: Path, outputs: Outputs) -> None:
    import pipeline

    keys = {"source": {"path": str(stack)}, "cluster": "serial"}
    tree = pipeline.run(sink={"path": str(outputs("a"))}, **keys)
    assert dict(tree["eigenvalues"].sizes) == {"k0": 12, "k1": 10, "band": 6}
    assert pipeline.plan(**keys).count == 1
    assert pipeline.verify(outputs("a")).failed == []
    assert pipeline.open(outputs("a")).identical(tree)


def test_progress_counts_and_estimates() -> None:
    progress = Progress(blocks=4, matrices=400)
    assert "0/4 blocks" in str(progress)
    assert format_seconds(3700) == "1 h 1 min"
    assert format_seconds(200) == "3 min 20 s"
    assert format_bytes(1536) == "1.5 KiB"


def test_configs_reach_workers_as_plain_data(stack: Path) -> None:
    import pickle

    from pipeline.job import prepare

    setup = prepare(configure(stack))
    for part in (setup.source, setup.solver):
        assert b"omegaconf" not in pickle.dumps(part)
