"""The process from which worker processes are forked, with all that they need loaded once.

A worker that is spawned takes a second of a core to load what it needs, each time. This one loads
it once, on another core, while the program itself still loads, and looks at the input; a worker
then is a fork, and is there in a tenth of a second. It holds no data and no threads.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from pipeline.signals import SIGNALS

METHOD = "forkserver" if sys.platform == "linux" else "spawn"
LOADED = "pipeline.cluster.loaded"
ENVIRONMENT = {
    # a library must not start threads: a fork would not have them, and the cores are taken
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "DASK_LOGGING__DISTRIBUTED": "critical",
}


def open_nursery() -> None:
    """Start the process, unless it runs already; it ends with this one."""
    if METHOD != "forkserver":
        return
    multiprocessing.get_context(METHOD).set_forkserver_preload([LOADED])
    resource_tracker.ensure_running()  # first: it unblocks signals once it has started
    with blocked_signals(), changed_environment(ENVIRONMENT):
        forkserver.ensure_running()


def holds_more(path: str, limit: int) -> bool:
    """Whether there are more than `limit` bytes in a folder; looks no further than that."""
    left = limit
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                left -= Path(folder, file).stat().st_size
            if left < 0:
                return True
    return False


@contextlib.contextmanager
def blocked_signals() -> Iterator[None]:
    """Let threads and processes started inside inherit that Ctrl-C and SIGTERM do not reach them.

    Both may be sent to the whole group; this process decides what becomes of the work. They stay
    pending for this thread, which gets them at the end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def changed_environment(changes: dict[str, str]) -> Iterator[None]:
    """Let processes started inside inherit other variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
