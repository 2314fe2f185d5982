"""Kills, and an S3 that often fails, or dies: what was done is kept."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from bucket_runs import (
    JOB,
    assert_equals,
    finish,
    launch,
    place,
    sink,
    start,
    wait_for_marks,
)
from storage_cases import QUICK, Bucket, Troubled

import pipeline
from pipeline.columns import Entry, State
from pipeline.errors import Misuse, StorageLost
from pipeline.lease import read_latest
from pipeline.ledger import Ledger
from pipeline.output import Output
from pipeline.verbs.verify import draw_sample


def test_resume_after_the_client_was_killed(bucket: Bucket, stack: Path, whole: Path) -> None:
    child = start(bucket, stack, pace=0.3)
    wait_for_marks(bucket, child)
    time.sleep(0.5)
    child.kill()
    child.communicate()
    done = int((Ledger(place(bucket)).columns["state"] == State.done).sum())
    assert 0 < done < 8
    assert read_latest(place(bucket) / "run" / "state")[1] is not None  # it left its lease behind
    code, _, stderr = finish(start(bucket, stack))
    assert code == 0 and f"{8 - done} to do, {done} of 8 done" in stderr, stderr
    assert_equals(bucket, whole)
    assert not bucket.list("out.zarr/run/state/marks")


def test_a_stop_leaves_nothing_to_fold(bucket: Bucket, stack: Path) -> None:
    child = start(bucket, stack, pace=0.3)
    wait_for_marks(bucket, child)
    os.kill(child.pid, signal.SIGTERM)
    assert finish(child)[0] == 3
    assert not bucket.list("out.zarr/run/state/marks")
    assert 0 < (Ledger(place(bucket)).columns["state"] == State.done).sum() < 8


def test_half_made_outputs_are_made_again(
    bucket: Bucket, stack: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.sink.create_variable", fail)
        with pytest.raises(KeyboardInterrupt):
            launch(stack, *JOB, sink=sink(bucket))
    assert bucket.list("out.zarr/run/start")
    with pytest.raises(Misuse, match="not an Eigenstream output"):
        Output.open(place(bucket))
    assert launch(stack, *JOB, sink=sink(bucket)).code == 0
    assert_equals(bucket, whole)


def test_an_s3_that_often_fails(
    bucket: Bucket, stack: Path, whole: Path, troubled: Troubled
) -> None:
    url = bucket.upload(stack, "in.zarr")
    troubled.rates = {"slow": 0.05, "reset": 0.05, "lag": 0.05}
    often = {"endpoint": troubled.url, "retry_config": {"backoff": {"init_backoff": 0.01}}}
    source = {"storage_options": {**bucket.options, **often}}
    target = sink(bucket, **often)
    assert launch(url, *JOB, source=source, sink=target).code == 0
    assert troubled.counts["slow"] and troubled.counts["reset"]
    assert_equals(bucket, whole)


@pytest.mark.parametrize("lost", ["input", "output"])
def test_an_s3_that_dies_for_good(
    bucket: Bucket,
    stack: Path,
    whole: Path,
    troubled: Troubled,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    """What is lost is named in the store's words; when it is back, the same command goes on."""
    url = bucket.upload(stack, "in.zarr")
    dying = {**bucket.options, "endpoint": troubled.url, "retry_config": QUICK}
    source = {"storage_options": dying if lost == "input" else bucket.options}
    target = {**sink(bucket), **({"storage_options": dying} if lost == "output" else {})}
    mark = Ledger.mark

    def die_at_the_third(self: Ledger, entry: Entry) -> None:
        mark(self, entry)
        troubled.dead = entry.block.index == 2

    monkeypatch.setattr("pipeline.stream.LOSSES", 3)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "mark", die_at_the_third)
        with pytest.raises(StorageLost, match=r"after 2 retries.*What was done is kept"):
            launch(url, *JOB, source=source, sink=target)
    troubled.dead = False
    states = Ledger(place(bucket)).columns["state"]
    assert (states == State.done).sum() >= 2
    assert launch(url, *JOB, source=source, sink=target).code == 0
    assert_equals(bucket, whole)


def test_verify_takes_no_silence_for_damage(
    bucket: Bucket, stack: Path, troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    draw = draw_sample

    def die_and_draw(*args: Any) -> Any:
        troubled.dead = True
        yield from draw(*args)

    monkeypatch.setattr("pipeline.verbs.verify.draw_sample", die_and_draw)
    options = {**bucket.options, "endpoint": troubled.url, "retry_config": QUICK}
    report = pipeline.verify(bucket.url("out.zarr"), storage_options=options)
    assert len(report.failed) == 8 and not report.damaged
    assert (Ledger(place(bucket)).columns["state"] == State.done).all()
