"""Runs that write into a bucket, here or as a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from run_cases import read_results
from storage_cases import Bucket

import pipeline
from pipeline.config import compose
from pipeline.lease import describe_self
from pipeline.places import Remote
from pipeline.run import Outcome, run
from pipeline.site import locate_output

SLOW = """
import sys, time
import pipeline.run as module
from pipeline.__main__ import main
write = module.write_block
module.write_block = lambda *args: (time.sleep({pace}), write(*args))
sys.exit(main())
"""
JOB = ("solve.vectors=true", "spectrum=dos", "spectrum.width=0.1", "plan.block_bytes=9000")


def launch(path: str | Path, *words: str, **nested: Any) -> Outcome:
    """Do a job here."""
    return run(compose([f"source.path={path}", "cluster=serial", *words], nested=nested))


def sink(bucket: Bucket, key: str = "out.zarr", **options: Any) -> dict[str, Any]:
    """The group `sink` of an output in a bucket."""
    return {"path": bucket.url(key), "storage_options": {**bucket.options, **options}}


def place(bucket: Bucket, key: str = "out.zarr") -> Remote:
    """Where that output lies."""
    found = locate_output(bucket.url(key), bucket.options)
    assert isinstance(found, Remote)
    return found


def results(bucket: Bucket, key: str = "out.zarr") -> dict[str, Any]:
    """All that came out, by name."""
    with pipeline.open(bucket.url(key), bucket.options) as tree:
        return {
            f"{node.path}/{name}": variable.values
            for node in tree.subtree
            if not node.path.startswith("/run")
            for name, variable in node.dataset.variables.items()
        }


def assert_equals(bucket: Bucket, whole: Path, key: str = "out.zarr") -> None:
    """The output holds what the folder `whole` does."""
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
    """Wait for the end; return the exit code, stdout and stderr."""
    stdout, stderr = child.communicate(timeout=120)
    assert "Traceback" not in stderr, stderr
    return child.returncode, stdout, stderr


def wait_for_marks(bucket: Bucket, child: subprocess.Popen[str]) -> None:
    """Wait until a run has marked a block."""
    deadline = time.monotonic() + 60
    while not bucket.list("out.zarr/run/state/marks"):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def plant(folder: Remote, number: int, **changes: Any) -> None:
    """Leave another's lease, alive by default."""
    holder = replace(describe_self(), token="other", **changes)
    (folder / f"lease.{number}").write_text(json.dumps(asdict(holder)))
