"""A crew of processes on this host: Dask's LocalCluster, kept on a short lead."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin
from distributed.protocol.pickle import dumps, loads

from pipeline.cluster.bundles import Bundles, Report, carry_out
from pipeline.cluster.crew import (
    GRACE_SECONDS,
    IN_FLIGHT,
    Lost,
    Outcome,
    Returned,
    keep_flight,
)
from pipeline.cluster.nursery import ENVIRONMENT, METHOD, blocked_signals, open_nursery
from pipeline.errors import Misuse, WorkersLost
from pipeline.progress import format_bytes

START_SECONDS = 120
log = logging.getLogger("eigenstream")
SETTINGS = {
    "distributed.worker.multiprocessing-method": METHOD,
    "distributed.comm.timeouts.connect": "30s",
    # tasks that a dying worker had come back at once: who is guilty is found out here
    "distributed.scheduler.allowed-failures": 0,
    # a paused worker might never go on, since what it holds are not results that could be spilled
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
}
CLOSE_SECONDS = 6
"""Time that the cluster gets to end after its workers were killed."""
PATIENCE_SECONDS = 60.0
"""Time without any worker after which none is expected any more; a restart takes a few seconds."""
DEATHS = 2
"""Times that every worker may die with no task ended between."""
BRINGS = 5
"""Times that the tasks' function is offered to the workers, if some die meanwhile."""
TRIES_ALONE = 2
"""Times that a task is tried alone, after its worker died while others were there, too."""
_carried: list[Callable[[Any], Any]] = []


class Carry(WorkerPlugin):  # type: ignore[misc]  # distributed ships no types
    """Brings the tasks' function to every worker once, those started later included.

    Tasks then are an address each, however much the function holds. The next one takes its place.
    """

    name = "carry"

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.payload = dumps(fn)

    def setup(self, worker: Any) -> None:
        """Unpack the function in a worker that starts."""
        _carried[:] = [loads(self.payload)]


def carry_bundle(bundle: tuple[Any, ...]) -> Report:
    """Carry out tasks by the function that `Carry` brought."""
    return carry_out(_carried[0], bundle)


class LocalCrew:
    """Worker processes with nannies."""

    abreast = 1

    def __init__(self, workers: int, memory: int) -> None:
        self.workers = workers
        self._memory = memory
        self._overfull: set[str] = set()
        # a folder of its own: the default one may belong to another user of this host
        self._scratch = tempfile.mkdtemp(prefix="eigenstream-")
        open_nursery()
        self._settings = contextlib.ExitStack()  # until the end: workers are started again
        self._settings.enter_context(dask.config.set(SETTINGS))
        try:
            with blocked_signals():
                self._cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=IN_FLIGHT,
                    processes=True,
                    memory_limit=memory,
                    # a free port: 8787 may show somebody else's dashboard
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                    local_directory=self._scratch,
                    env=ENVIRONMENT,
                )
                self._client = Client(self._cluster, set_as_default=False)
            self._client.subscribe_topic("worker-restart-memory", self._note_overfull)
            self._client.wait_for_workers(1, timeout=START_SECONDS)
        except TimeoutError as error:
            self.close()
            raise WorkersLost(f"no worker process started within {START_SECONDS} s") from error
        except RuntimeError as error:
            self.close()
            raise Misuse(
                f"the worker processes could not be started ({error}). In a script of your own the "
                f'call must stand below `if __name__ == "__main__":`, because each worker imports '
                f"the script first; or choose cluster=threads"
            ) from error

    def _note_overfull(self, event: tuple[float, dict[str, Any]]) -> None:
        self._overfull.add(str(event[1]["worker"]))

    def map_blocks(
        self, fn: Callable[[Any], Any], tasks: Iterable[Any], stop: threading.Event
    ) -> Iterator[Outcome]:
        """See `Crew.map_blocks`.

        Of the tasks that a dying worker had, any may be what killed it: they are suspects, and
        tried again after all others, each alone. So are those of which no answer came.
        """
        self._bring(fn)
        bundles, suspects, deaths, any_done = Bundles(tasks), list[Any](), set[str](), False
        # one more for each worker, so that the next address waits where the last block ends
        for report in self._fly(bundles, stop, window=(IN_FLIGHT + 1) * self.workers):
            if report.failure is None:
                deaths.clear()
                any_done = True
                bundles.learn(report)
                yield from report.outcomes
                continue
            suspects += [outcome.task for outcome in report.outcomes]
            death = str(report.failure) or type(report.failure).__name__
            if death not in deaths:
                log.warning("%s", f"{death}. Its blocks are tried again, each alone, after others")
            self._judge(deaths, death)
        for task in suspects:
            for outcome in self._try_alone(task, stop):
                any_done |= isinstance(outcome, Returned)
                if isinstance(outcome, Lost) and not any_done:
                    self._judge(deaths, str(outcome.error))
                yield outcome

    def _bring(self, fn: Callable[[Any], Any]) -> None:
        """Bring the tasks' function to every worker, also if some die just then."""
        for _ in range(BRINGS):
            try:
                self._client.register_plugin(Carry(fn))
                return
            except OSError as error:  # of a connection
                failure = error
        raise WorkersLost(f"workers died before their first block: {failure}") from failure

    def _judge(self, deaths: set[str], death: str) -> None:
        """Note a death (of one worker, each of its bundles tells), and give up when one worker
        after the other died and no task ended between."""
        deaths.add(death)
        if len(deaths) > max(4, DEATHS * self.workers):
            raise WorkersLost(
                f"{len(deaths)} workers died one after the other, and no block was done between; "
                f"the last: {death}. What was done before is kept: mend the cause, then the same "
                f"command goes on"
            )

    def _try_alone(self, task: Any, stop: threading.Event) -> Iterator[Outcome]:
        """Try a task with nothing else in flight, so that a worker's death is its own doing."""
        failure: BaseException | None = None
        for _ in range(TRIES_ALONE):
            for report in self._fly([(task,)], stop, window=1):
                failure = report.failure
                if failure is None:
                    yield from report.outcomes
                    return
        if isinstance(failure, WorkersLost) and not stop.is_set():
            died = f"its worker died each of the {1 + TRIES_ALONE} times it was tried"
            yield Lost(task, WorkersLost(f"{died}; {failure}"), killed=True)
        elif failure and not stop.is_set():
            yield Lost(task, failure, killed=False)

    def _fly(
        self, bundles: Iterable[tuple[Any, ...]], stop: threading.Event, window: int
    ) -> Iterator[Report]:
        """Send bundles to the workers, and yield what becomes of them."""
        ended: queue.SimpleQueue[Report] = queue.SimpleQueue()
        flying: dict[str, Any] = {}  # a future forgotten is a task cancelled

        def submit(bundle: tuple[Any, ...]) -> None:
            future = self._client.submit(carry_bundle, bundle, pure=False, retries=0)
            flying[future.key] = future
            future.add_done_callback(lambda f: land(f, bundle))

        def land(future: Any, bundle: tuple[Any, ...]) -> None:
            report = self._read_report(future, bundle)
            flying.pop(future.key, None)
            ended.put(report)

        watch = Watch(self._cluster)
        yield from keep_flight(bundles, submit, ended, stop, window, watch.look)
        if flying:
            self._client.cancel(list(flying.values()), force=True)

    def _read_report(self, future: Any, bundle: tuple[Any, ...]) -> Report:
        """Turn a future that is done into a report."""
        try:
            report: Report = future.result(timeout=GRACE_SECONDS)
            return report
        except KilledWorker as error:
            failure: BaseException = WorkersLost(self._explain_death(error.last_worker.address))
        except BaseException as error:
            failure = error
        return Report([Lost(task, failure, killed=False) for task in bundle], failure=failure)

    def _explain_death(self, address: str) -> str:
        if address in self._overfull:
            return (
                f"worker {address} took more than its {format_bytes(self._memory)} of memory and "
                f"was ended; give each more (cluster.memory), or make plan.block_bytes smaller"
            )
        return f"worker {address} died"

    def close(self) -> None:
        """See `Crew.close`; closes what there is, if it could not be started whole.

        Nothing in a worker is worth waiting for: its blocks are written, or abandoned. So all are
        killed, whether they would end by themselves, are stopped, hang, or only just start (and
        would tell of the cluster that ended meanwhile).
        """
        for nanny in list(getattr(getattr(self, "_cluster", None), "workers", {}).values()):
            nanny.close_gracefully()  # which is to say: do not start another
            if nanny.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
        thread = threading.Thread(target=self._close_orderly, name="close", daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        self._settings.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _close_orderly(self) -> None:
        for name in ("_client", "_cluster"):
            with contextlib.suppress(Exception):
                getattr(self, name).close(timeout=CLOSE_SECONDS)


class Watch:
    """Notices that all workers are gone and none comes back."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster, self._seen = cluster, time.monotonic()

    def look(self) -> None:
        """Raise WorkersLost after PATIENCE_SECONDS without a worker."""
        now = time.monotonic()
        if self._cluster.scheduler.workers:
            self._seen = now
        elif now - self._seen > PATIENCE_SECONDS:
            raise WorkersLost(
                f"all workers are gone, and none came back within {PATIENCE_SECONDS:.0f} s. What "
                f"was done is kept; see to it that processes can be started on this host (memory, "
                f"limits), then the same command goes on"
            )
