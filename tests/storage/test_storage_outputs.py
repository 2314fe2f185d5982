"""Outputs in a bucket: the same results, verified, and no credentials anywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bucket_runs import (
    JOB,
    assert_equals,
    finish,
    launch,
    place,
    sink,
    start,
)
from storage_cases import KEY_ID, SECRET, Bucket, Troubled

import pipeline
from pipeline.columns import State
from pipeline.errors import Misuse
from pipeline.ledger import Ledger


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


def test_number_of_objects(bucket: Bucket, stack: Path) -> None:
    launch(stack, *JOB, sink=sink(bucket))
    data = [k for k in bucket.list() if re.search(r"/(eigen\w+|residual|status)/c/", k)]
    assert len(data) == 4 * 8
    assert len(bucket.list()) - len(data) < 60
