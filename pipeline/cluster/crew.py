"""Crews: the workers of one run, in this process or in others, behind one call."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

log = logging.getLogger("eigenstream")
SMALL_BYTES = 64 << 20
"""Input below which `auto` stays in this process: starting others would take longer."""
IN_FLIGHT = 2
"""Tasks for each worker that are in flight: one computes, the other reads or writes."""
GRACE_SECONDS = 30.0
"""Time that tasks in flight get to finish after a stop; then they are abandoned."""


@dataclass(frozen=True)
class Returned:
    """A task that ended, with what it returned."""

    task: Any
    value: Any


@dataclass(frozen=True)
class Lost:
    """A task that did not end: the error it raised, or that it took its worker down."""

    task: Any
    error: BaseException
    killed: bool


Outcome = Returned | Lost
Ended = TypeVar("Ended")


class Crew(Protocol):
    """Workers that carry out tasks.

    Attributes
    ----------
    workers : int
        Tasks that may compute at a time.
    abreast : int
        Of these, in one process. More than that are in flight there: some read and write meanwhile.
    """

    workers: int
    abreast: int

    def map_blocks(
        self, fn: Callable[[Any], Any], tasks: Iterable[Any], stop: threading.Event
    ) -> Iterator[Outcome]:
        """Carry out `fn(task)` for each task, in any order, with bounded flight.

        Tasks are taken from the iterable only as workers become free. Once
        `stop` is set no further task is begun; those in flight are waited for
        up to GRACE_SECONDS. A task is opaque here.
        """
        ...

    def close(self) -> None:
        """End the workers, within seconds whatever they do."""
        ...


def count_cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def measure_memory() -> int:
    """Measure the memory that this process may use, in bytes: the host's, or its cgroup's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [total]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


@dataclass(frozen=True)
class Size:
    """How many workers of which kind, with how many threads and how much memory each."""

    kind: str
    workers: int
    threads: int
    memory: int


def choose_crew(
    kind: str, *, workers: int | None, threads: int | None, memory: int | None, total_bytes: int
) -> Size:
    """Choose a crew: pure but for the cores and memory of this host.

    The rule: `auto` is `threads` for up to 64 MiB of input, else `local`.
    Workers times threads never exceed the cores: by default one worker a core
    with one thread each; `serial` is one worker. Memory is the host's (or the
    cgroup's), nine tenths of it divided evenly between worker processes.
    """
    cores = count_cores()
    if kind == "auto":
        kind = "threads" if total_bytes <= SMALL_BYTES else "local"
    wanted = 1 if kind == "serial" else workers or max(1, cores // (threads or 1))
    count = min(wanted, cores)
    each = min(threads or 1, max(1, cores // count))
    if count < wanted or each < (threads or 1):
        log.warning(
            "%s",
            f"{wanted} workers x {threads or 1} threads are more than the {cores} cores of this "
            f"host; {count} x {each} are used",
        )
    return Size(kind, count, each, memory or int(0.9 * measure_memory()) // count)


def start_crew(size: Size) -> Crew:
    """Start the workers of a crew."""
    if size.kind == "serial":
        return SerialCrew()
    if size.kind == "threads":
        return ThreadCrew(size.workers)
    from pipeline.cluster.local import LocalCrew  # dask takes a second to load

    return LocalCrew(size.workers, size.memory)


class SerialCrew:
    """One task after the other, in the calling thread."""

    workers = abreast = 1

    def map_blocks(
        self, fn: Callable[[Any], Any], tasks: Iterable[Any], stop: threading.Event
    ) -> Iterator[Outcome]:
        """See `Crew.map_blocks`."""
        for task in tasks:
            if stop.is_set():
                return
            yield attempt(fn, task)

    def close(self) -> None:
        """See `Crew.close`."""


class ThreadCrew:
    """Threads of this process. They are daemons: an abandoned task does not keep it alive."""

    def __init__(self, workers: int) -> None:
        self.workers = self.abreast = workers
        self._tasks: queue.SimpleQueue[tuple[Callable[[Any], Any], Any] | None] = (
            queue.SimpleQueue()
        )
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        for i in range(IN_FLIGHT * workers):
            threading.Thread(target=self._work, name=f"worker-{i}", daemon=True).start()

    def _work(self) -> None:
        while (item := self._tasks.get()) is not None:
            self._ended.put(attempt(*item))

    def map_blocks(
        self, fn: Callable[[Any], Any], tasks: Iterable[Any], stop: threading.Event
    ) -> Iterator[Outcome]:
        """See `Crew.map_blocks`."""
        yield from keep_flight(
            tasks,
            lambda task: self._tasks.put((fn, task)),
            self._ended,
            stop,
            # one more than workers, so that none waits for this thread to hand out the next
            window=IN_FLIGHT * self.workers + 1,
        )

    def close(self) -> None:
        """See `Crew.close`."""
        for _ in range(IN_FLIGHT * self.workers):
            self._tasks.put(None)


def attempt(fn: Callable[[Any], Any], task: Any) -> Outcome:
    """Carry out one task; an error is an outcome, not the end of the worker."""
    try:
        return Returned(task, fn(task))
    except Exception as error:
        return Lost(task, error, killed=False)


def keep_flight(
    tasks: Iterable[Any],
    submit: Callable[[Any], None],
    ended: queue.SimpleQueue[Ended],
    stop: threading.Event,
    window: int,
    watch: Callable[[], None] = lambda: None,
) -> Iterator[Ended]:
    """Keep up to `window` tasks in flight, and yield what arrives in `ended`.

    `watch` is called while nothing arrives: it may raise where nothing ever will.
    """
    waiting = iter(tasks)
    flying, exhausted, grace = 0, False, GRACE_SECONDS
    while True:
        while not exhausted and not stop.is_set() and flying < window:
            try:
                task = next(waiting)
            except StopIteration:
                exhausted = True
                break
            submit(task)
            flying += 1
        if flying == 0 or grace <= 0:
            return
        try:
            outcome = ended.get(timeout=0.25)
        except queue.Empty:
            grace -= 0.25 if stop.is_set() else 0.0
            watch()
            continue
        flying -= 1
        yield outcome
