"""The end is bounded: seconds after the last block the program is gone, and its workers too."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import psutil
from fault_cases import JOB, LOCAL, SOLVE, Program, find_workers, finish, wait_until

BOUND = 10


def test_workers_that_do_not_end_when_asked(program: Program, whole: Path) -> None:
    child = program.start(*LOCAL, pace=0.1, deaf=1)
    wait_until(lambda: program.done >= 1, child)
    workers = find_workers(child)
    assert end_in_time(program, child, workers) == 0
    program.assert_equals(whole)


def test_workers_that_are_stopped_at_the_end(program: Program, whole: Path) -> None:
    program.job = SOLVE  # a spectrum would need the workers again
    child = program.start(*LOCAL, pace=0.1)
    wait_until(lambda: program.done >= 1, child)
    workers = find_workers(child)
    wait_until(lambda: program.done == len(program.states), child)
    for worker in workers:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended already
            worker.suspend()
    assert end_in_time(program, child, workers) == 0
    program.job = JOB
    assert program.resume() == 0
    program.assert_equals(whole)


def end_in_time(
    program: Program, child: subprocess.Popen[str], workers: list[psutil.Process]
) -> int:
    """Return the exit code of a run that ends within BOUND of its last block, workers and all."""
    wait_until(lambda: program.done == len(program.states), child)
    last = time.monotonic()
    code, _ = finish(child, timeout=60)
    assert time.monotonic() - last < BOUND
    assert not psutil.wait_procs(workers, timeout=1)[1]
    return code
