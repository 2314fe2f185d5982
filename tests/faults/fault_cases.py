"""The program as a child process, with faults put into it; its workers; what it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from run_cases import assert_equal_results, draw_hermitian, run_here, write_stack

from pipeline.columns import State
from pipeline.ledger import Ledger

INJECT = Path(__file__).parent / "inject"
MATRICES, CHUNK = 24, 2
SOLVE = ("plan.block_bytes=1152", "solve.vectors=true")  # a chunk of two 6 x 6 matrices
JOB = (*SOLVE, "spectrum=dos", "spectrum.width=0.1")
LOCAL = ("cluster=local", "cluster.workers=2")
SERIAL = ("cluster=serial",)


def write_input(path: Path, **extra: Any) -> Path:
    """Write matrices whose a[0, 0] is their number, two to a chunk."""
    matrices = draw_hermitian(np.random.default_rng(3), MATRICES, 6)
    matrices[:, 0, 0] = np.arange(MATRICES)
    return write_stack(path, matrices, (CHUNK,), **extra)


class Program:
    """`python -m pipeline`, started for one input and one output.

    Parameters
    ----------
    source, out : Path
        The input and the output; the output's folder is the working directory.
    """

    def __init__(self, source: Path, out: Path) -> None:
        self.source, self.out, self.job = source, out, JOB

    def start(self, *overrides: str, **faults: Any) -> subprocess.Popen[str]:
        """Start `run`, with faults by their names in inject/sitecustomize.py."""
        words = [
            "run",
            f"source.path={self.source}",
            f"sink.path={self.out}",
            *self.job,
            *overrides,
        ]
        return self.call(*words, **faults)

    def call(self, *words: str, **faults: Any) -> subprocess.Popen[str]:
        """Start any verb."""
        path = os.pathsep.join(filter(None, [str(INJECT), os.environ.get("PYTHONPATH")]))
        named = {f"FAULT_{name.upper()}": str(value) for name, value in faults.items()}
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *words],
            cwd=self.source.parent,
            env={**os.environ, "PYTHONPATH": path, **named},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *overrides: str, **faults: Any) -> tuple[int, str]:
        """Run to the end; return the exit code and what the user saw on stderr."""
        return finish(self.start(*overrides, **faults))

    def resume(self, *overrides: str) -> int:
        """Give the same command again, undisturbed; here, where nothing must be loaded first."""
        return run_here(self.source, f"sink.path={self.out}", *self.job, *overrides).code

    @property
    def states(self) -> np.ndarray:
        """State of every block; empty where there is no output yet."""
        if not (self.out / "run").is_dir():
            return np.zeros(0, np.uint8)
        return Ledger(self.out).columns["state"]

    @property
    def done(self) -> int:
        """Number of blocks that are done."""
        return int((self.states == State.done).sum())

    def assert_equals(self, whole: Path) -> None:
        """Everything is done, and equal bit for bit to an undisturbed run."""
        assert (self.states == State.done).all()
        assert_equal_results(self.out, whole)


def finish(child: subprocess.Popen[str], timeout: float = 120) -> tuple[int, str]:
    """Wait for a child; return its exit code and what it wrote to stderr."""
    try:
        _, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise AssertionError(f"still running after {timeout} s: {child.communicate()}") from None
    assert "Traceback" not in stderr, stderr
    return child.returncode, stderr


def wait_until(ready: Callable[[], Any], child: subprocess.Popen[str]) -> None:
    """Wait until something holds, while the child lives."""
    deadline = time.monotonic() + 120
    while not ready():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def find_workers(child: subprocess.Popen[str]) -> list[psutil.Process]:
    """Find the worker processes of a run: forks of its nursery."""
    found = psutil.Process(child.pid).children()
    nurseries = [process for process in found if "forkserver" in " ".join(process.cmdline())]
    return [worker for nursery in nurseries for worker in nursery.children()]
