"""Crews: every task ends once, flight is bounded, and a task that kills its worker is let go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.cluster import Crew, Lost, Returned, start_crew
from pipeline.cluster.bundles import LARGEST
from pipeline.cluster.crew import IN_FLIGHT, Size, ThreadCrew
from pipeline.cluster.nursery import METHOD, holds_more
from pipeline.run import take_turn


@pytest.fixture(params=["serial", "threads", "local"])
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    started = start_crew(Size(request.param, 2, 1, 1 << 30))
    yield started
    started.close()


def square(number: int) -> int:
    if number == 7:
        raise OSError("no seven")
    return number * number


def kill_at_three(number: int) -> int:
    if number == 3:
        os._exit(1)
    return number


def test_every_task_ends_once(crew: Crew) -> None:
    outcomes = list(crew.map_blocks(square, range(30), threading.Event()))
    assert sorted(o.task for o in outcomes) == list(range(30))
    for outcome in outcomes:
        if isinstance(outcome, Lost):
            assert (outcome.task, str(outcome.error), outcome.killed) == (7, "no seven", False)
        else:
            assert outcome.value == outcome.task**2


def test_tasks_are_taken_as_workers_become_free(crew: Crew) -> None:
    taken = []

    def produce() -> Iterator[int]:
        for number in range(10, 2000):
            taken.append(number)
            yield number

    for ended, _ in enumerate(crew.map_blocks(square, produce(), threading.Event())):
        assert len(taken) <= ended + 1 + (IN_FLIGHT + 1) * crew.workers * LARGEST
    assert len(taken) == 1990


def test_a_stop_begins_no_further_task(crew: Crew) -> None:
    stop = threading.Event()
    ended = 0
    for _ in crew.map_blocks(square, range(10, 10_000), stop):
        ended += 1
        stop.set()
    assert ended <= 1 + (IN_FLIGHT + 1) * crew.workers * LARGEST


def test_a_task_that_kills_its_worker_does_not_take_the_others_down() -> None:
    crew = start_crew(Size("local", 2, 1, 1 << 30))
    try:
        begun = time.monotonic()
        outcomes = list(crew.map_blocks(kill_at_three, range(8), threading.Event()))
        assert time.monotonic() - begun < 120
    finally:
        crew.close()
    lost = [o for o in outcomes if isinstance(o, Lost)]
    assert [(o.task, o.killed) for o in lost] == [(3, True)]
    assert sorted(o.task for o in outcomes if isinstance(o, Returned)) == [0, 1, 2, 4, 5, 6, 7]


def test_one_task_reads_while_another_computes() -> None:
    """Two are in flight for each worker, and one at a time has the right to compute."""
    crew, both, computing, most = ThreadCrew(1), threading.Barrier(2, timeout=30), [0], [0]

    def work(number: int) -> int:
        both.wait()  # reading: nobody gets on alone
        with take_turn(crew.abreast):
            computing[0] += 1
            most[0] = max(most[0], computing[0])
            time.sleep(0.01)
            computing[0] -= 1
        return number

    outcomes = list(crew.map_blocks(work, range(6), threading.Event()))
    crew.close()
    assert sorted(o.value for o in outcomes if isinstance(o, Returned)) == list(range(6))
    assert most == [1]


@pytest.mark.skipif(METHOD != "forkserver", reason="workers are not forked here")
def test_workers_are_forks_of_a_process_without_threads() -> None:
    """A fork would not have them, and what they held would be locked in it for ever."""
    crew = start_crew(Size("local", 2, 1, 1 << 30))
    try:
        parents = {o.value for o in crew.map_blocks(find_parent, range(8), threading.Event())}
        (nursery,) = parents
        assert psutil.Process(nursery).num_threads() == 1
        assert psutil.Process(nursery).ppid() == os.getpid()
    finally:
        crew.close()


def find_parent(_: int) -> int:
    return os.getppid()


def test_a_folder_is_looked_at_no_further_than_needed(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"c{number}").mkdir()
        (tmp_path / f"c{number}" / "0").write_bytes(bytes(100))
    assert holds_more(str(tmp_path), 299) and not holds_more(str(tmp_path), 300)
    assert not holds_more(str(tmp_path / "nothing"), 0)
