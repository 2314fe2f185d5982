"""The ledger: which blocks are done, how they went, and where the output came from.

It is the group `run/` of the output: one small uncompressed array for each
column, in one file each, whatever the number of blocks. Because the files are
plain numbers in block order, marking a block is a write of a few bytes in
place: no file is rewritten, so a kill at any instant leaves every earlier mark
as it was, and the output stays an ordinary Zarr group throughout. Only the
process that holds the lease marks. On an object store, where nothing can be written in
place, marks go through a journal (see `pipeline.journal`) and into the arrays at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr

from pipeline.columns import (
    ATTRIBUTES,
    COLUMNS,
    DEVICES,
    DRIVERS,
    NOT_RUN,
    OUTCOMES,
    RECORD,
    SIZES,
    Entry,
    State,
)
from pipeline.errors import Misuse
from pipeline.journal import Journal
from pipeline.lease import Pass
from pipeline.places import Place, Remote, pick, replace_text
from pipeline.plan import Block

GROUP = "run"
NOTES = 1000
"""Failures whose words are kept on an object store, where a note rewrites them all."""


def create_ledger(root: zarr.Group, blocks: Sequence[Block], attributes: dict[str, Any]) -> None:
    """Make the group `run/` with the block list and nothing done."""
    group = root.create_group(GROUP, attributes=attributes)
    axes = len(blocks[0].start) if blocks else 0
    for name in ("start", "stop"):
        table = np.array([getattr(b, name) for b in blocks], "<i8").reshape(len(blocks), axes)
        _create_column(group, name, table, ("block", "axis"), {})
    for name, (dtype, dims) in COLUMNS.items():
        table = np.zeros((len(blocks), *(SIZES[d] for d in dims)), dtype)
        _create_column(group, name, table, ("block", *dims), ATTRIBUTES[name])


def _create_column(
    group: zarr.Group,
    name: str,
    table: np.ndarray[Any, Any],
    dims: tuple[str, ...],
    attributes: dict[str, Any],
) -> None:
    array = group.create_array(
        name,
        shape=table.shape,
        dtype=table.dtype,
        chunks=tuple(max(1, s) for s in table.shape),
        compressors=None,
        dimension_names=dims,
        attributes=attributes,
        config={"write_empty_chunks": True},
    )
    if table.size:
        array[...] = table


@dataclass
class Ledger:
    """The ledger of an output on disk.

    Parameters
    ----------
    path : Place
        The output's folder.
    """

    path: Place
    blocks: list[Block] = field(init=False)
    columns: dict[str, np.ndarray[Any, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._journal: Journal | None = None
        if isinstance(self.path, Remote):
            self._journal = Journal(self.path / GROUP / "state" / "marks", RECORD)
        self.reload()

    def reload(self) -> None:
        """Read again what is on disk."""
        marks = self._read_journal()  # first: what is folded meanwhile is then in the arrays
        read = {name: self._read(name) for name in ("start", "stop", *COLUMNS)}
        self.blocks = [
            Block(i, tuple(a), tuple(b))
            for i, (a, b) in enumerate(
                zip(read["start"].tolist(), read["stop"].tolist(), strict=True)
            )
        ]
        self.columns = {name: read[name] for name in COLUMNS}
        for name in COLUMNS:
            self.columns[name][marks["block"]] = marks[name]

    def _read_journal(self) -> np.ndarray[Any, Any]:
        if self._journal is None:
            return np.zeros(0, RECORD)
        return self._journal.read(int(self.read_attributes().get("folded", 0)))

    def _read(self, name: str) -> np.ndarray[Any, Any]:
        try:
            column = zarr.open_array(
                pick(self.path), path=f"{GROUP}/{name}", mode="r", zarr_format=3
            )
            return np.array(column[...])
        except Exception as error:  # whatever a codec raises for damaged bytes
            raise Misuse(
                f"{self.path / GROUP / name} is damaged ({error}): without its ledger nobody can "
                f"say which blocks are done. The arrays beside it can still be read; to run again "
                f"say sink.overwrite=true, or give another sink.path"
            ) from error

    @property
    def folder(self) -> Place:
        """Where the lease and the list of failures lie: inside a column, out of Zarr's sight."""
        return self.path / GROUP / "state"

    def read_attributes(self) -> dict[str, Any]:
        """Return the provenance stored with the output."""
        return dict(zarr.open_group(pick(self.path), path=GROUP, mode="r", zarr_format=3).attrs)

    def update_attributes(self, **changes: Any) -> None:
        """Change entries of the provenance."""
        group = zarr.open_group(pick(self.path), path=GROUP, mode="r+", zarr_format=3)
        group.attrs.update(changes)

    def mark(self, entry: Entry) -> None:
        """Mark a block as done.

        What says so, `matrices` and `state`, goes last: a mark that a kill cuts short does not
        count, even where a trial had done a part of the block.
        """
        row: dict[str, Any] = {
            "counts": entry.counts,
            "seconds": entry.seconds,
            "finished": time.time(),
            "driver": DRIVERS.index(entry.driver),
            "device": DEVICES.index(entry.device),
            "matrices": sum(entry.counts) - entry.counts[NOT_RUN],
            "state": State.done,
        }
        for name, value in row.items():
            self._write(name, entry.block.index, value)
        self._commit(entry.block.index)

    def mark_lost(self, block: Block, error: str, *, quarantine: bool = False) -> None:
        """Mark a block as failed, and note why.

        A block of which a trial (`plan.limit`) had done a part loses that mark: it is not done.
        """
        note = json.dumps({"block": block.index, "time": time.time(), "error": error})
        notes = self.folder / "failures.jsonl"
        if isinstance(notes, Remote):
            lines = notes.read_text().splitlines() if notes.is_file() else []
            replace_text(notes, "\n".join([*lines[-NOTES:], note]))
        else:
            with notes.open("a") as file:
                file.write("\n" + note)  # a line that a kill cut short stays alone
        self._write("state", block.index, State.quarantined if quarantine else State.lost)
        self._commit(block.index)

    def _write(self, name: str, index: int, value: Any) -> None:
        column = self.columns[name]
        column[index] = value
        if isinstance(self.path, Remote):
            return
        data = column[index : index + 1].tobytes()
        keys = "/".join("0" for _ in column.shape)
        file = os.open(self.path / GROUP / name / "c" / keys, os.O_WRONLY)
        try:
            os.pwrite(file, data, index * len(data))
        finally:
            os.close(file)

    def _commit(self, index: int) -> None:
        """Hand a block's row to the journal, where there is one."""
        if self._journal is not None:
            row = np.zeros((), RECORD)
            row["block"] = index
            for name, column in self.columns.items():
                row[name] = column[index]
            self._journal.append(row)

    @contextlib.contextmanager
    def marking(self, ticket: Pass) -> Iterator[None]:
        """Read again what another process may have done, mark, and leave an ordinary group."""
        self.reload()
        try:
            yield
        except OSError:  # lost storage: the next launch reads the journal
            raise
        except BaseException:
            self._fold(ticket)
            raise
        self._fold(ticket)

    def _fold(self, ticket: Pass) -> None:
        """Put what the journal says into the arrays; nothing to do on a disk."""
        if self._journal is None:
            return
        self._journal.flush()
        ticket.check()  # what is in memory is old if another process has taken over
        for name, column in self.columns.items():
            array = zarr.open_array(
                pick(self.path), path=f"{GROUP}/{name}", mode="r+", zarr_format=3
            )
            if column.size:
                array[...] = column
        self.update_attributes(folded=self._journal.last)
        self._journal.remove()

    def read_failures(self) -> dict[int, str]:
        """Return the last error of every block that is not done."""
        path = self.folder / "failures.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        errors: dict[int, str] = {}
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # cut short by a kill
                note = json.loads(line)
                errors[int(note["block"])] = str(note["error"])
        lost = np.isin(self.columns["state"], (State.lost, State.quarantined))
        return {int(i): errors.get(int(i), "not known") for i in np.flatnonzero(lost)}

    def find_pending(self, needed: Sequence[int], *, retry_failed: bool = False) -> list[Block]:
        """Return the blocks still to be done.

        Parameters
        ----------
        needed : sequence of int
            How many matrices of each block this launch must deal with (see
            `count_needed`); a block with fewer than that is done (again).
        retry_failed : bool
            Take quarantined blocks, too.
        """
        state, have = self.columns["state"], self.columns["matrices"]
        return [
            block
            for block, need in zip(self.blocks, needed, strict=True)
            if need
            and (state[block.index] != State.done or have[block.index] < need)
            and (retry_failed or state[block.index] != State.quarantined)
        ]

    def count_statuses(self) -> dict[str, int]:
        """Number of matrices by status in the blocks done so far."""
        done = self.columns["state"] == State.done
        totals = self.columns["counts"][done].sum(axis=0)
        return {name: int(total) for name, total in zip(OUTCOMES, totals, strict=True)}


def count_needed(block: Block, shape: Sequence[int], limit: int | None) -> int:
    """Count the matrices of a block among the first `limit` of the stack in C order."""
    return block.size if limit is None else int(within_limit(block, shape, limit).sum())


def within_limit(block: Block, shape: Sequence[int], limit: int) -> np.ndarray[Any, Any]:
    """Tell which matrices of a block are among the first `limit` in C order: bool, block shape."""
    flat = np.zeros(block.shape, np.int64)
    stride = 1
    for axis in reversed(range(len(shape))):
        position = np.arange(block.start[axis], block.stop[axis], dtype=np.int64) * stride
        flat += position.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        stride *= shape[axis]
    inside: np.ndarray[Any, Any] = np.asarray(flat < limit)
    return inside
