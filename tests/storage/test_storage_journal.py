"""Marks on an object store: few objects, and none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bucket_runs import (
    JOB,
    launch,
    place,
    plant,
    sink,
)
from storage_cases import Bucket

from pipeline.columns import OUTCOMES, RECORD, Entry, State
from pipeline.errors import Interrupted
from pipeline.journal import Journal
from pipeline.lease import Lease
from pipeline.ledger import Ledger


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
