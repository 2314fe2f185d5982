"""The lease on an object store: one writer, whoever comes and goes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from bucket_runs import (
    assert_equals,
    finish,
    place,
    plant,
    start,
    wait_for_marks,
)
from storage_cases import Bucket

from pipeline import lease as leases
from pipeline.errors import Interrupted, Misuse
from pipeline.lease import Lease, read_latest


def test_two_runs_at_once(bucket: Bucket, stack: Path, whole: Path) -> None:
    pair = [start(bucket, stack, pace=0.3) for _ in range(2)]
    ends = [finish(child) for child in pair]
    assert sorted(code for code, *_ in ends) == [0, 2], ends
    refused = next(stderr for code, _, stderr in ends if code == 2)
    assert "is writing this output" in refused and "blocks:" not in refused
    assert_equals(bucket, whole)


def test_a_second_run_is_refused_before_it_writes(bucket: Bucket, stack: Path) -> None:
    first = start(bucket, stack, pace=0.5)
    wait_for_marks(bucket, first)
    os.kill(first.pid, signal.SIGSTOP)
    before = bucket.list()
    code, _, stderr = finish(start(bucket, stack))
    assert code == 2 and f"process {first.pid} on" in stderr
    assert {k: v for k, v in bucket.list().items() if k in before} == before
    os.kill(first.pid, signal.SIGCONT)
    assert finish(first)[0] == 0


def test_leases(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place(bucket) / "run" / "state"
    plant(folder, 4, born="1")  # dead, on this host
    with Lease(folder) as lease:
        assert lease.number == 5
        lease.ticket.check()
        with pytest.raises(Misuse, match="is writing this output"):
            Lease(folder)
        plant(folder, 6, machine="elsewhere")
        with pytest.raises(Interrupted, match="taken over"):
            lease.ticket.check()
    assert read_latest(folder)[0] == 6
    with pytest.raises(Misuse):
        Lease(folder)  # elsewhere, and young
    monkeypatch.setattr(leases, "STALE_SECONDS", 0.5)
    time.sleep(1.6)  # S3 counts whole seconds
    with Lease(folder) as lease:
        assert lease.number == 7
    assert [key.rpartition("/")[2] for key in bucket.list()] == ["lease.7"]


def test_the_heartbeat(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.2)
    folder = place(bucket) / "run" / "state"
    with Lease(folder) as lease:
        first = (folder / f"lease.{lease.number}").read_time()
        time.sleep(1.8)
        assert (folder / f"lease.{lease.number}").read_time() > first


def test_of_two_that_create_at_once_one_wins(bucket: Bucket) -> None:
    folder = place(bucket) / "x"
    assert (folder / "a").create(b"one")
    assert not (folder / "a").create(b"two")
    assert (folder / "a").create(b"one")  # as when the answer to the first was lost
    assert (folder / "a").read_bytes() == b"one"
