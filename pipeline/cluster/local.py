"""A crew of processes on this host: Dask's LocalCluster, kept on a short lead."""

from __future__ import annotations

import contextlib
import logging
import queue
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin
from distributed.protocol.pickle import dumps, loads

from pipeline.cluster.crew import GRACE_SECONDS, Lost, Outcome, Returned, keep_flight
from pipeline.errors import Interrupted, Misuse

START_SECONDS = 120
SETTINGS = {
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.comm.timeouts.connect": "30s",
}
CLOSE_SECONDS = 8
_carried: dict[str, Callable[[Any], Any]] = {}


class Carry(WorkerPlugin):  # type: ignore[misc]  # distributed ships no types
    """Brings the task's function to every worker once, those started later included.

    Tasks then are an address each, however much the function holds.
    """

    def __init__(self, key: str, fn: Callable[[Any], Any]) -> None:
        self.name = key
        self.payload = dumps(fn)

    def setup(self, worker: Any) -> None:
        """Unpack the function in a worker that starts."""
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C reaches the whole group; the client decides what becomes of the work
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _carried[self.name] = loads(self.payload)

    def teardown(self, worker: Any) -> None:
        """Forget the function."""
        _carried.pop(self.name, None)


def carry_out(key: str, task: Any) -> Any:
    """Carry out a task by the function that `Carry` brought."""
    return _carried[key](task)


class LocalCrew:
    """Worker processes with nannies, spawned; one task at a time in each."""

    def __init__(self, workers: int, memory: int) -> None:
        self.workers = workers
        # a folder of its own: the default one may belong to another user of this host
        self._scratch = tempfile.mkdtemp(prefix="eigenstream-")
        try:
            with dask.config.set(SETTINGS), blocked_interrupts():
                self._cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=memory,
                    # a free port: 8787 may show somebody else's dashboard
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                    local_directory=self._scratch,
                    env={"DASK_LOGGING__DISTRIBUTED": "critical"},
                )
                self._client = Client(self._cluster, set_as_default=False)
            self._client.wait_for_workers(1, timeout=START_SECONDS)
        except TimeoutError as error:
            self.close()
            raise Interrupted(f"no worker process started within {START_SECONDS} s") from error
        except RuntimeError as error:
            self.close()
            raise Misuse(
                f"the worker processes could not be started ({error}). In a script of your own the "
                f'call must stand below `if __name__ == "__main__":`, because each worker imports '
                f"the script first; or choose cluster=threads"
            ) from error

    def map_blocks(
        self, fn: Callable[[Any], Any], tasks: Iterable[Any], stop: threading.Event
    ) -> Iterator[Outcome]:
        """See `Crew.map_blocks`."""
        carry = Carry(f"carry-{uuid.uuid4().hex}", fn)
        self._client.register_plugin(carry)
        ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        flying: dict[str, Any] = {}  # a future forgotten is a task cancelled

        def submit(task: Any) -> None:
            future = self._client.submit(carry_out, carry.name, task, pure=False, retries=0)
            flying[future.key] = future
            future.add_done_callback(lambda f: land(f, task))

        def land(future: Any, task: Any) -> None:
            outcome = read_outcome(future, task)
            flying.pop(future.key, None)
            ended.put(outcome)

        # two for each worker, so that the next address waits where the last block ends
        yield from keep_flight(tasks, submit, ended, stop, window=2 * self.workers)
        if flying:
            self._client.cancel(list(flying.values()), force=True)
        else:
            self._client.unregister_worker_plugin(carry.name)

    def close(self) -> None:
        """See `Crew.close`; closes what there is, if it could not be started whole."""
        for name in ("_client", "_cluster"):
            with contextlib.suppress(Exception):
                getattr(self, name).close(timeout=CLOSE_SECONDS)
        shutil.rmtree(self._scratch, ignore_errors=True)


def read_outcome(future: Any, task: Any) -> Outcome:
    """Turn a future that is done into an outcome."""
    try:
        return Returned(task, future.result(timeout=GRACE_SECONDS))
    except KilledWorker as error:
        return Lost(task, error, killed=True)
    except BaseException as error:
        return Lost(task, error, killed=False)


@contextlib.contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Let threads and processes started inside inherit that Ctrl-C does not reach them.

    It stays pending for this thread, which gets it at the end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
