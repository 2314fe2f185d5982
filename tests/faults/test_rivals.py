"""Two runs, one output: one writes at a time, and a dead one does not keep others out."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
from fault_cases import SERIAL, Program, find_workers, finish, wait_until

from pipeline.lease import STALE_SECONDS, describe_self, read_latest


def list_files(folder: Path) -> dict[str, int]:
    """List the files of an output with the time of their last change; heartbeats aside."""
    return {
        str(p): p.stat().st_mtime_ns
        for p in folder.rglob("*")
        if p.is_file() and "run/state" not in p.as_posix()
    }


def test_two_runs_started_at_once(program: Program, whole: Path) -> None:
    pair = [program.start(*SERIAL, pace=0.3) for _ in range(2)]
    ends = [finish(child) for child in pair]
    assert sorted(code for code, _ in ends) == [0, 2], ends
    refused = next(stderr for code, stderr in ends if code == 2)
    assert "is writing this output" in refused and "give another sink.path" in refused
    assert "blocks:" not in refused
    program.assert_equals(whole)


def test_a_second_run_is_refused_before_it_writes(program: Program, whole: Path) -> None:
    first = program.start(*SERIAL, pace=0.5)
    wait_until(lambda: program.done >= 1, first)
    os.kill(first.pid, signal.SIGSTOP)  # what changes now, the other one has changed
    time.sleep(0.2)
    before = list_files(program.out)
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert f"process {first.pid} on" in stderr
    assert list_files(program.out) == before
    os.kill(first.pid, signal.SIGCONT)
    assert finish(first)[0] == 0
    program.assert_equals(whole)


def test_a_dead_holder_here_is_replaced_at_once(program: Program, whole: Path) -> None:
    child = program.start(*SERIAL, pace=0.3)
    wait_until(lambda: program.done >= 1, child)
    child.kill()
    child.communicate()
    assert read_latest(program.out / "run" / "state")[1] is not None  # it left its lease behind
    assert program.run(*SERIAL)[0] == 0
    program.assert_equals(whole)


def test_a_dead_holder_elsewhere_is_replaced_within_a_minute(program: Program, whole: Path) -> None:
    assert STALE_SECONDS <= 60
    assert program.resume("plan.limit=4") == 0
    folder = program.out / "run" / "state"
    lease = folder / f"lease.{read_latest(folder)[0] + 1}"
    lease.write_text(json.dumps(asdict(replace(describe_self(), token="x", machine="other"))))
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert "last sign of life" in stderr
    silent = time.time() - STALE_SECONDS - 1
    os.utime(lease, (silent, silent))
    assert program.run(*SERIAL)[0] == 0
    program.assert_equals(whole)


def test_a_holder_that_was_silent_for_long_does_not_write_on(program: Program, whole: Path) -> None:
    first = program.start("cluster=local", "cluster.workers=1", pace=0.5)
    wait_until(lambda: program.done >= 1, first)
    folder = program.out / "run" / "state"
    number, holder, _ = read_latest(folder)
    assert holder is not None
    workers = find_workers(first)
    taken = folder / f"lease.{number + 1}"
    taken.write_text(json.dumps(asdict(replace(holder, token="y", machine="other"))))
    code, stderr = finish(first)
    assert code == 3, stderr
    assert "another run has taken over" in stderr
    assert not psutil.wait_procs(workers, timeout=5)[1]
    taken.unlink()
    assert program.resume() == 0
    program.assert_equals(whole)
