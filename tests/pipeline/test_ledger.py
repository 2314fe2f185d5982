"""The ledger survives anything, is an ordinary Zarr group, and never loses a mark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

from kernels import Status
from pipeline.ledger import (
    OUTCOMES,
    Entry,
    Ledger,
    State,
    count_needed,
    create_ledger,
    within_limit,
)
from pipeline.plan import Block, cut
from pipeline.sink import consolidate

SHAPE = (6, 5)
BLOCKS = list(cut(SHAPE, (2, 5)))


def make_entry(block: Block, **counts: int) -> Entry:
    row = tuple(counts.get(name, 0) for name in OUTCOMES)
    return Entry(block, row, (0.5, 1.5, 0.25), "lapack", "cpu")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    root = zarr.open_group(tmp_path / "out", mode="w", zarr_format=3)
    create_ledger(root, BLOCKS, {"who": "test"})
    consolidate(tmp_path / "out")
    return Ledger(tmp_path / "out")


def test_codes_are_those_of_the_kernels() -> None:
    assert [s.name for s in Status] == list(OUTCOMES)
    assert [int(s) for s in Status] == list(range(len(OUTCOMES)))


def test_a_mark_is_on_disk_at_once(ledger: Ledger) -> None:
    ledger.mark(make_entry(BLOCKS[1], ok=9, nonfinite=1))
    again = Ledger(ledger.path)
    assert again.blocks == BLOCKS
    assert again.columns["state"].tolist() == [0, 1, 0]
    assert again.count_statuses()["nonfinite"] == 1
    assert again.find_pending([10, 10, 10]) == [BLOCKS[0], BLOCKS[2]]


def test_marks_touch_nothing_else(ledger: Ledger) -> None:
    """A mark rewrites no file, so whatever stops it leaves all earlier marks."""
    before = {p: p.stat().st_ino for p in ledger.path.rglob("*") if p.is_file()}
    for block in BLOCKS:
        ledger.mark(make_entry(block, ok=10))
    assert before == {p: p.stat().st_ino for p in ledger.path.rglob("*") if p.is_file()}
    assert (Ledger(ledger.path).columns["state"] == State.done).all()


def test_it_opens_as_an_ordinary_group(ledger: Ledger) -> None:
    ledger.mark(make_entry(BLOCKS[2], ok=10))
    with xr.open_zarr(ledger.path, group="run", chunks=None) as stored:
        assert stored["state"].values.tolist() == [0, 0, 1]
        assert stored["seconds"].values[2].tolist() == [0.5, 1.5, 0.25]
        assert stored["start"].values.tolist() == [list(b.start) for b in BLOCKS]


def test_lost_blocks_are_tried_again_and_quarantined_ones_when_asked(ledger: Ledger) -> None:
    ledger.mark_lost(BLOCKS[0], "OSError: gone")
    ledger.mark_lost(BLOCKS[1], "KilledWorker", quarantine=True)
    again = Ledger(ledger.path)
    assert again.read_failures() == {0: "OSError: gone", 1: "KilledWorker"}
    assert again.find_pending([10] * 3) == [BLOCKS[0], BLOCKS[2]]
    assert again.find_pending([10] * 3, retry_failed=True) == BLOCKS
    again.mark(make_entry(BLOCKS[0], ok=10))
    assert set(again.read_failures()) == {1}


def test_a_block_that_was_done_stays_done(ledger: Ledger) -> None:
    ledger.mark(make_entry(BLOCKS[0], ok=10))
    ledger.mark_lost(BLOCKS[0], "OSError")
    assert Ledger(ledger.path).columns["state"][0] == State.done


def test_a_trial_goes_on_without_its_limit(ledger: Ledger) -> None:
    ledger.mark(make_entry(BLOCKS[0], ok=7, not_run=3))
    assert ledger.find_pending([7, 0, 0]) == []
    assert ledger.find_pending([b.size for b in BLOCKS]) == BLOCKS


@given(
    st.lists(st.integers(1, 6), min_size=0, max_size=3),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.integers(1, 250),
)
def test_limit_counts_in_c_order(shape: list[int], extents: list[int], limit: int) -> None:
    flat = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    for block in cut(shape, extents[: len(shape)]):
        expected = flat[block.slices] < limit
        assert np.array_equal(within_limit(block, shape, limit), expected)
        assert count_needed(block, shape, limit) == expected.sum()
        assert count_needed(block, shape, None) == block.size
