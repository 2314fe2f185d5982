"""Faults for every process of a run, chosen by environment variables.

Python imports a module of this name at start where PYTHONPATH has its folder, also in the process
from which workers are forked. So the program itself needs no hook for its tests.

FAULT_POISON    a[0, 0] of the matrix on which the driver kills its process; `all`: on any
FAULT_GLUTTON   a[0, 0] of the matrix for which the driver takes 4 GiB
FAULT_PACE      seconds that each call of the driver takes longer
FAULT_WRITE     seconds that each file of eigenvectors waits before it gets its name
FAULT_BARRED    a file; while it exists worker processes end as soon as they start
FAULT_DEAF      worker processes do not end when asked to
FAULT_CORES     number of cores that the process seems to have
FAULT_PATIENCE  seconds to wait for workers to come back
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

FAULTS = {k.removeprefix("FAULT_"): v for k, v in os.environ.items() if k.startswith("FAULT_")}
NURSERY = any("forkserver" in word for word in sys.orig_argv)


def poison_driver(module: Any) -> None:
    """Make the driver kill its process, or take too much memory, at one matrix; or be slow."""
    solve = module.solve

    def poisoned(a: Any, *args: Any, **options: Any) -> Any:
        time.sleep(float(FAULTS.get("PACE", 0)))
        corners = {str(int(x.real)) for x in a[..., 0, 0].reshape(-1)} | {"all"}
        if FAULTS.get("POISON") in corners:
            os.kill(os.getpid(), signal.SIGKILL)
        if FAULTS.get("GLUTTON") in corners:
            take_memory()
        return solve(a, *args, **options)

    module.solve = poisoned


def take_memory() -> None:
    """Take 4 GiB, slowly enough for somebody to notice."""
    held = []
    for _ in range(64):
        held.append(b"x" * (64 << 20))
        time.sleep(0.03)


def replace_slowly(source: Any, target: Any, **options: Any) -> None:
    """Keep files of eigenvectors waiting under another name, as all are before they are whole."""
    if "/eigenvectors/c/" in Path(target).as_posix():
        time.sleep(float(FAULTS["WRITE"]))
    replace(source, target, **options)


def set_patience(module: Any) -> None:
    """Shorten the wait for workers."""
    module.PATIENCE_SECONDS = float(FAULTS["PATIENCE"])


def begin_worker() -> None:
    """In a worker that starts: end it, or see to it that it does not end."""
    if "BARRED" in FAULTS and Path(FAULTS["BARRED"]).exists():
        os._exit(1)
    if "DEAF" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=time.sleep, args=(60,)).start()


PATCHES = {"kernels.lanes": poison_driver}
if "PATIENCE" in FAULTS:
    PATCHES["pipeline.cluster.local"] = set_patience


class Patcher(importlib.abc.MetaPathFinder):
    """Patches modules once they are loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as usual, and patch it once its code has run."""
        patch = PATCHES.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if patch else None
        if patch is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_patch(module: Any) -> None:
            load(module)
            patch(module)

        spec.loader.exec_module = load_and_patch  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Patcher())
replace = os.replace
if "WRITE" in FAULTS:
    os.replace = replace_slowly
if "CORES" in FAULTS:
    os.sched_getaffinity = lambda _: set(range(int(FAULTS["CORES"])))
if NURSERY:
    os.register_at_fork(after_in_child=begin_worker)
