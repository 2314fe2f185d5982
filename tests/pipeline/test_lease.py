"""One holder at a time; a dead or silent one is replaced; a worker notices that it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import lease as leases
from pipeline.errors import Interrupted, Misuse
from pipeline.lease import Lease, describe_self, read_latest


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Lease]:
    with Lease(tmp_path) as lease:
        yield lease


def plant(folder: Path, number: int, age: float = 0.0, **changes: Any) -> None:
    """Leave the lease of some other process behind."""
    path = folder / f"lease.{number}"
    path.write_text(json.dumps(asdict(replace(describe_self(), token="other", **changes))))
    os.utime(path, (time.time() - age,) * 2)


def test_a_second_holder_is_refused_by_name(held: Lease) -> None:
    with pytest.raises(Misuse, match=f"process {os.getpid()} on .*is writing this output"):
        Lease(held.folder)


def test_a_released_lease_can_be_taken(tmp_path: Path) -> None:
    for _ in range(3):
        with Lease(tmp_path) as lease:
            lease.ticket.check()
    assert len(list(tmp_path.iterdir())) == 1
    assert read_latest(tmp_path)[1] is None


def test_a_dead_holder_on_this_host_is_replaced_at_once(tmp_path: Path) -> None:
    plant(tmp_path, 4, born="1")  # a number used again by a younger process
    with Lease(tmp_path) as lease:
        assert lease.number == 5


def test_a_silent_holder_elsewhere_is_replaced_in_time(tmp_path: Path) -> None:
    plant(tmp_path, 1, machine="elsewhere", age=leases.STALE_SECONDS - 10)
    with pytest.raises(Misuse):
        Lease(tmp_path)
    plant(tmp_path, 1, machine="elsewhere", age=leases.STALE_SECONDS + 10)
    with Lease(tmp_path) as lease:
        assert lease.number == 2


def test_a_worker_notices_that_the_lease_was_taken_over(held: Lease) -> None:
    held.ticket.check()
    plant(held.folder, held.number + 1)
    with pytest.raises(Interrupted, match="another run has taken over"):
        held.ticket.check()


def test_a_worker_notices_that_the_lease_was_released(tmp_path: Path) -> None:
    with Lease(tmp_path) as lease:
        ticket = lease.ticket
    with pytest.raises(Interrupted):
        ticket.check()


def test_the_heartbeat_keeps_a_lease_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    with Lease(tmp_path) as lease:
        path = tmp_path / f"lease.{lease.number}"
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def contend(folder: Path, gate: Any, won: Any) -> None:
    gate.wait()
    try:
        lease = Lease(folder)
    except Misuse:
        return
    won.put(lease.number)
    time.sleep(1)
    lease.release()


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    plant(tmp_path, 1, born="1")  # all of them see the same dead holder
    context = multiprocessing.get_context("spawn")
    gate, won = context.Barrier(4), context.Queue()
    crowd = [context.Process(target=contend, args=(tmp_path, gate, won)) for _ in range(4)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert won.get(timeout=5) == 2
    assert won.empty()
