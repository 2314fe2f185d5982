"""Crews: every task ends once, flight is bounded, and a task that kills its worker is let go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from pipeline.cluster import Crew, Lost, Returned, start_crew
from pipeline.cluster.bundles import LARGEST
from pipeline.cluster.crew import IN_FLIGHT, Size


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
