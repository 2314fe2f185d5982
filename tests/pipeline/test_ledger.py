"""The ledger survives anything, is an ordinary Zarr group, and never loses a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

from kernels import Status
from pipeline.columns import OUTCOMES, Entry, State
from pipeline.errors import Misuse
from pipeline.ledger import Ledger, count_needed, create_ledger, within_limit
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


def test_a_trial_s_block_that_is_then_lost_is_not_done(ledger: Ledger) -> None:
    ledger.mark(make_entry(BLOCKS[0], ok=7, not_run=3))
    ledger.mark_lost(BLOCKS[0], "OSError")
    again = Ledger(ledger.path)
    assert again.columns["state"][0] == State.lost
    assert again.find_pending([10, 0, 0]) == [BLOCKS[0]]


def test_a_mark_that_is_cut_short_does_not_count(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between any two writes of a mark: the block is done whole, or to be done again."""
    trial, whole = make_entry(BLOCKS[0], ok=7, not_run=3), make_entry(BLOCKS[0], ok=10)
    write = Ledger._write
    for kept in range(8):
        ledger.mark(trial)
        left = [kept]

        def stop_early(self: Ledger, *args: Any, left: list[int] = left) -> None:
            if left[0]:
                left[0] -= 1
                write(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "_write", stop_early)
            ledger.mark(whole)
        again = Ledger(ledger.path)
        done = not again.find_pending([10, 0, 0])
        assert not done or again.count_statuses()["ok"] == 10


def test_a_note_that_is_cut_short_is_passed_over(ledger: Ledger) -> None:
    ledger.mark_lost(BLOCKS[0], "OSError: one")
    with (ledger.folder / "failures.jsonl").open("a") as file:
        file.write('\n{"block": 1, "time": 1.0, "er')
    ledger.mark_lost(BLOCKS[2], "OSError: two")
    assert Ledger(ledger.path).read_failures() == {0: "OSError: one", 2: "OSError: two"}


def test_a_damaged_ledger_is_named(ledger: Ledger) -> None:
    column = ledger.path / "run" / "matrices" / "c" / "0"
    column.write_bytes(column.read_bytes()[:5])
    with pytest.raises(Misuse, match=r"run/matrices is damaged.*sink\.overwrite=true"):
        Ledger(ledger.path)


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
