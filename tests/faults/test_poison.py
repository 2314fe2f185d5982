"""Matrices on which a process dies each time it touches them: they alone are given up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fault_cases import CHUNK, LOCAL, MATRICES, SERIAL, Program
from run_cases import read_results

from pipeline.columns import OUTCOMES, State

BAD = 7
BLOCK = BAD // CHUNK
FAILED = OUTCOMES.index("failed")


def assert_one_given_up(program: Program, whole: Path) -> None:
    """One block is quarantined, its matrices failed; all others are as in an undisturbed run."""
    assert np.flatnonzero(program.states == State.quarantined).tolist() == [BLOCK]
    assert (program.states == State.done).sum() == len(program.states) - 1
    found, right = read_results(program.out), read_results(whole)
    bad = np.arange(MATRICES) // CHUNK == BLOCK
    assert (found["//status"] == np.where(bad, FAILED, right["//status"])).all()
    for name in ("//eigenvalues", "//eigenvectors", "//residual"):
        assert np.isnan(found[name][bad]).all()
        assert found[name][~bad].tobytes() == right[name][~bad].tobytes()


def test_a_block_that_kills_its_worker_each_time(program: Program, whole: Path) -> None:
    code, stderr = program.run(*LOCAL, poison=BAD)
    assert code == 1, stderr
    assert "its worker died each of the 3 times it was tried" in stderr
    assert f"given up: block {BLOCK}" in stderr and "run.retry_failed=true" in stderr
    assert_one_given_up(program, whole)
    code, stderr = program.run(*SERIAL)  # would do it now, but only when asked
    assert code == 1, stderr
    assert_one_given_up(program, whole)
    assert program.resume("run.retry_failed=true") == 0
    program.assert_equals(whole)


def test_a_block_that_takes_too_much_memory(program: Program, whole: Path) -> None:
    code, stderr = program.run(*LOCAL, "cluster.memory=900MiB", glutton=BAD)
    assert code == 1, stderr
    assert "took more than its 900.0 MiB of memory" in stderr and "cluster.memory" in stderr
    assert_one_given_up(program, whole)
    assert program.resume("run.retry_failed=true") == 0
    program.assert_equals(whole)


def test_when_every_block_kills_its_worker(program: Program, whole: Path) -> None:
    code, stderr = program.run(*LOCAL, poison="all")
    assert code == 4, stderr
    assert "workers died one after the other" in stderr and "the same command goes on" in stderr
    assert (program.states == State.todo).all()
    assert program.resume() == 0
    program.assert_equals(whole)
