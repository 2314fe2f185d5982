"""Outputs in a bucket: the same results, resumed, locked, verified, and no credentials anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_cases import read_results
from storage_cases import KEY_ID, QUICK, SECRET, Bucket, Troubled

import pipeline
from pipeline import lease as leases
from pipeline.columns import OUTCOMES, RECORD, Entry, State
from pipeline.config import compose
from pipeline.errors import Interrupted, Misuse, StorageLost
from pipeline.journal import Journal
from pipeline.lease import Lease, describe_self, read_latest
from pipeline.ledger import Ledger
from pipeline.output import Output
from pipeline.places import Remote
from pipeline.run import Outcome, run
from pipeline.site import locate_output
from pipeline.verbs.verify import draw_sample

SLOW = """
import sys, time
import pipeline.run as module
from pipeline.__main__ import main
write = module.write_block
module.write_block = lambda *args: (time.sleep({pace}), write(*args))
sys.exit(main())
"""
JOB = ("solve.vectors=true", "spectrum=dos", "spectrum.width=0.1", "plan.block_bytes=9000")


@pytest.fixture(scope="module")
def whole(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job, written to a folder."""
    out = tmp_path_factory.mktemp("whole") / "out.zarr"
    assert launch(stack, f"sink.path={out}", *JOB).code == 0
    return out


def launch(path: str | Path, *words: str, **nested: Any) -> Outcome:
    return run(compose([f"source.path={path}", "cluster=serial", *words], nested=nested))


def sink(bucket: Bucket, key: str = "out.zarr", **options: Any) -> dict[str, Any]:
    return {"path": bucket.url(key), "storage_options": {**bucket.options, **options}}


def place(bucket: Bucket, key: str = "out.zarr") -> Remote:
    found = locate_output(bucket.url(key), bucket.options)
    assert isinstance(found, Remote)
    return found


def results(bucket: Bucket, key: str = "out.zarr") -> dict[str, Any]:
    with pipeline.open(bucket.url(key), bucket.options) as tree:
        return {
            f"{node.path}/{name}": variable.values
            for node in tree.subtree
            if not node.path.startswith("/run")
            for name, variable in node.dataset.variables.items()
        }


def assert_equals(bucket: Bucket, whole: Path, key: str = "out.zarr") -> None:
    expected, found = read_results(whole), results(bucket, key)
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        assert np.array_equal(values, found[name], equal_nan=values.dtype.kind in "fc"), name


def start(
    bucket: Bucket, stack: Path, *more: str, endpoint: str | None = None, pace: float = 0.0
) -> subprocess.Popen[str]:
    """Start the program as a user would, with credentials on the command line."""
    code = SLOW.format(pace=pace)
    words = ["run", f"source.path={stack}", f"sink.path={bucket.url('out.zarr')}", "cluster=serial"]
    words += [*JOB, *bucket.words("sink", endpoint), *more]
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=stack.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = child.communicate(timeout=120)
    assert "Traceback" not in stderr, stderr
    return child.returncode, stdout, stderr


def wait_for_marks(bucket: Bucket, child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not bucket.list("out.zarr/run/state/marks"):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_end_to_end(bucket: Bucket, stack: Path, whole: Path) -> None:
    url = bucket.upload(stack, "in.zarr")
    source = {"storage_options": bucket.options}
    outcome = launch(url, *JOB, source=source, sink=sink(bucket))
    assert outcome.code == 0 and str(outcome.path) == bucket.url("out.zarr")
    assert_equals(bucket, whole)
    objects = bucket.list()
    assert not [key for key in objects if "/marks/" in key]
    assert {"out.zarr.log", "out.zarr.yaml"} <= objects.keys()
    before = objects
    assert launch(url, *JOB, source=source, sink=sink(bucket)).code == 0
    after = bucket.list()
    assert {k for k in after if after[k] != before.get(k)} <= {"out.zarr.log"}


def test_processes_write_too(bucket: Bucket, stack: Path, whole: Path) -> None:
    job = (*JOB, "cluster=local", "cluster.workers=2")
    assert launch(stack, *job, sink=sink(bucket)).code == 0
    assert_equals(bucket, whole)


def test_its_ledger_is_an_ordinary_group(bucket: Bucket, stack: Path, whole: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    with pipeline.open(bucket.url("out.zarr"), bucket.options) as tree:
        assert (tree["run/state"].values == State.done).all()
        assert tree["run/counts"].values.sum() == 120
    local = Ledger(whole)
    assert Ledger(place(bucket)).blocks == local.blocks


def test_verify_and_analyse_read_it_back(bucket: Bucket, stack: Path, tmp_path: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    report = pipeline.verify(bucket.url("out.zarr"), storage_options=bucket.options)
    assert report.checked == 120 and not report.failed
    url, words = bucket.url("out.zarr"), bucket.words("sink")
    for verb in (["status"], ["verify"], ["analyse", "spectrum.width=0.2"]):
        call = [sys.executable, "-m", "pipeline", verb[0], url, *verb[1:], *words]
        found = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        assert SECRET not in found.stdout + found.stderr
    with pipeline.open(url, bucket.options) as tree:
        assert float(tree["spectrum/broadening"]) == 0.2


def test_verify_gives_damage_back(bucket: Bucket, stack: Path, whole: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    key = next(k for k in bucket.list("out.zarr/eigenvalues/c"))
    bucket.put(key, bucket.read(key)[:-9])
    report = pipeline.verify(bucket.url("out.zarr"), sample=None, storage_options=bucket.options)
    assert len(report.damaged) == 1
    assert (Ledger(place(bucket)).columns["state"] == State.lost).sum() == 1
    assert launch(stack, *JOB, sink=sink(bucket)).code == 0
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


def test_no_credentials_anywhere(bucket: Bucket, stack: Path) -> None:
    url = bucket.upload(stack, "in.zarr")
    child = start(bucket, stack, f"source.path={url}", *bucket.words("source"))
    code, stdout, stderr = finish(child)
    assert code == 0, stderr
    assert stdout.splitlines()[-1] == bucket.url("out.zarr")
    written = {k: bucket.read(k) for k in bucket.list("out.zarr")}
    written |= {k: bucket.read(k) for k in ("out.zarr.log", "out.zarr.yaml")}
    for secret in (SECRET, KEY_ID):
        assert secret not in stdout + stderr
        assert not [k for k, content in written.items() if secret.encode() in content]
    assert "storage_options=***" in str(json.loads(written["out.zarr/run/zarr.json"]))


def test_mistakes_do_not_tell(tmp_path: Path) -> None:
    for word in (
        f"source.storage_options.secret_access_key={SECRET}=x,y",
        f"source.storage_options={SECRET}",
        f"source.storage_options=[{SECRET}]",
        f"source={{path: x, storage_options: {{secret: {SECRET}}}, colour: 1}}",
    ):
        call = [sys.executable, "-m", "pipeline", "run", "source.path=x.zarr", word]
        found = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 2 and SECRET not in found.stdout + found.stderr, found.stderr
    call = [*call[:-1], "--cfg", f"source.storage_options.secret={SECRET}"]
    found = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0 and SECRET not in found.stdout + found.stderr


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


def test_overwrite_and_what_is_not_ours(bucket: Bucket, stack: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    with pytest.raises(Misuse, match="another input or solve"):
        launch(stack, "solve.vectors=false", sink=sink(bucket))
    assert launch(stack, sink={**sink(bucket), "overwrite": True}).code == 0
    assert not bucket.list("out.zarr/eigenvectors") and not bucket.list("out.zarr/spectrum")
    bucket.put("mine/notes.txt", b"x")
    with pytest.raises(Misuse, match="holds something else"):
        launch(stack, sink=sink(bucket, "mine"))
    url = bucket.upload(stack, "in.zarr")
    with pytest.raises(Misuse, match="in or around the input"):
        launch(url, source={"storage_options": bucket.options}, sink=sink(bucket, "in.zarr/out"))
    for path in ("memory://out.zarr", "https://host/out.zarr", "s3://only-a-bucket"):
        with pytest.raises(Misuse, match="outputs are written to"):
            launch(stack, f"sink.path={path}")


def test_a_wrong_bucket_or_wrong_credentials(
    bucket: Bucket, stack: Path, troubled: Troubled
) -> None:
    with pytest.raises(Misuse, match="NoSuchBucket"):
        launch(stack, sink={**sink(bucket), "path": "s3://nobody-s-bucket/out.zarr"})
    troubled.denied = True
    code, _, stderr = finish(start(bucket, stack, endpoint=troubled.url))
    assert code == 2 and "403 Forbidden" in stderr and "sink.storage_options" in stderr
    assert KEY_ID not in stderr and SECRET not in stderr
    assert not bucket.list()


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


# The lease


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


def plant(folder: Remote, number: int, **changes: Any) -> None:
    holder = replace(describe_self(), token="other", **changes)
    (folder / f"lease.{number}").write_text(json.dumps(asdict(holder)))


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


# The journal


def make_row(index: int) -> Any:
    row = np.zeros((), RECORD)
    row["block"], row["state"] = index, State.done
    return row


def test_many_marks_make_few_objects(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.journal.RECORDS", 100)
    folder = place(bucket) / "marks"
    journal = Journal(folder, RECORD)
    for index in range(1030):
        journal.append(make_row(index))
    journal.flush()
    assert len(bucket.list("out.zarr/marks")) == 11
    again = Journal(folder, RECORD)
    assert again.read(0)["block"].tolist() == list(range(1030))
    assert again.read(10)["block"].tolist() == list(range(1000, 1030))
    other = Journal(folder, RECORD)
    other.read(0)
    other.append(make_row(7))
    other.flush()
    journal.append(make_row(8))
    journal.flush()
    assert again.read(10)["block"].tolist() == [*range(1000, 1030), 8, 7]


def test_a_fold_that_is_cut_short_loses_nothing(
    bucket: Bucket, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(stack, *JOB, "plan.limit=30", sink=sink(bucket))
    ledger = Ledger(place(bucket))
    block = ledger.blocks[-1]
    counts = tuple(block.size if name == "ok" else 0 for name in OUTCOMES)

    def fail(self: Journal) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, Lease(ledger.folder) as lease:
        patch.setattr(Journal, "remove", fail)
        with pytest.raises(KeyboardInterrupt), ledger.marking(lease.ticket):
            ledger.mark(Entry(block, counts, (0, 0, 0), "lapack", "cpu"))
    assert bucket.list("out.zarr/run/state/marks")
    assert Ledger(place(bucket)).columns["state"][block.index] == State.done
    with Lease(ledger.folder) as lease, ledger.marking(lease.ticket):
        ledger.mark_lost(block, "OSError: gone")
    again = Ledger(place(bucket))
    assert again.read_failures()[block.index] == "OSError: gone"
    assert not bucket.list("out.zarr/run/state/marks")


def test_who_was_taken_over_does_not_fold(bucket: Bucket, stack: Path) -> None:
    launch(stack, *JOB, "plan.limit=30", sink=sink(bucket))
    ledger = Ledger(place(bucket))
    with (
        Lease(ledger.folder) as lease,
        pytest.raises(Interrupted, match="taken over"),
        ledger.marking(lease.ticket),
    ):
        plant(ledger.folder, lease.number + 1, machine="elsewhere")


def test_number_of_objects(bucket: Bucket, stack: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    data = [k for k in bucket.list() if re.search(r"/(eigen\w+|residual|status)/c/", k)]
    assert len(data) == 4 * 8
    assert len(bucket.list()) - len(data) < 60
