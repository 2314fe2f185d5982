"""Processes that are killed, told to end, or stopped: what was done stays, the rest is done.

The scheduler of a local crew lives in the program itself: killing the one is killing the other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from fault_cases import LOCAL, SERIAL, Program, find_workers, finish, wait_until

from pipeline.columns import State


@pytest.mark.parametrize("victims", [1, 2], ids=["one", "all"])
def test_workers_killed(program: Program, whole: Path, victims: int) -> None:
    child = program.start(*LOCAL, pace=0.3)
    wait_until(lambda: program.done >= 2, child)
    for worker in find_workers(child)[:victims]:
        worker.kill()
    code, stderr = finish(child)
    assert code == 0, stderr
    assert "died. Its blocks are tried again" in stderr
    program.assert_equals(whole)


def test_program_and_scheduler_killed(program: Program, whole: Path) -> None:
    child = program.start(*LOCAL, pace=0.3)
    wait_until(lambda: program.done >= 3, child)
    workers = find_workers(child)
    assert len(workers) == 2
    child.kill()
    child.communicate()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive  # nobody is left who would write
    before = program.done
    assert 3 <= before < len(program.states)
    code, stderr = program.run(*SERIAL)
    assert code == 0, stderr
    assert f"{len(program.states) - before} to do" in stderr  # a dead holder's lease is no obstacle
    program.assert_equals(whole)


def find_unfinished(out: Path) -> list[Path]:
    """Find files that are being written: they do not have the name of a chunk yet."""
    files = (path for path in (out / "eigenvectors" / "c").rglob("*") if path.is_file())
    return [path for path in files if not path.name.isdigit()]


@pytest.mark.parametrize("whom", ["program", "group"])
def test_told_to_end_in_the_middle_of_a_write(program: Program, whole: Path, whom: str) -> None:
    child = program.start(*LOCAL, write=0.7)
    wait_until(lambda: find_unfinished(program.out), child)
    tell = os.killpg if whom == "group" else os.kill  # some batch systems tell every process
    tell(child.pid, signal.SIGTERM)
    code, stderr = finish(child)
    assert code == 3, stderr
    assert f"sink.path={program.out}" in stderr.splitlines()[-1]
    assert "died" not in stderr
    assert program.done >= 1  # what was being written came to its end
    assert set(program.states) == {State.done, State.todo}
    assert not find_unfinished(program.out)
    assert program.resume() == 0
    program.assert_equals(whole)


@pytest.mark.slow
def test_a_worker_stopped_for_a_minute(program: Program, whole: Path) -> None:
    child = program.start(*LOCAL, pace=0.3)
    wait_until(lambda: program.done >= 2, child)
    worker = find_workers(child)[0]
    worker.suspend()
    time.sleep(60)
    assert child.poll() is None  # it waits for the blocks that the worker has
    assert program.done >= len(program.states) - 4  # while the other does the rest
    worker.resume()
    code, stderr = finish(child)
    assert code == 0, stderr
    assert "died" not in stderr
    program.assert_equals(whole)


def test_workers_that_never_come_back(program: Program, whole: Path, tmp_path: Path) -> None:
    barred = tmp_path / "barred"
    child = program.start(*LOCAL, pace=0.3, barred=barred, patience=5)
    wait_until(lambda: program.done >= 2, child)
    barred.touch()
    for worker in find_workers(child):
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()
    code, stderr = finish(child, timeout=60)
    assert code == 4, stderr
    assert "all workers are gone" in stderr and "the same command goes on" in stderr
    barred.unlink()
    assert program.resume() == 0
    program.assert_equals(whole)
