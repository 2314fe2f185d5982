"""The loop of a run: tasks out to the workers, outcomes in, each marked in the ledger."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.cluster import Crew, Lost
from pipeline.columns import State
from pipeline.errors import Interrupted, StoppedEarly, StorageLost
from pipeline.job import Setup
from pipeline.labels import name_block
from pipeline.ledger import count_needed
from pipeline.output import Output
from pipeline.plan import Block, group_blocks
from pipeline.progress import Progress
from pipeline.signals import StopSignal
from pipeline.verdict import EARLY, count_unmasked, find_early_end

if TYPE_CHECKING:
    from pipeline.run import Job

log = logging.getLogger("eigenstream")
LOSSES = 10
"""Tasks lost in a row after which it is the store that is lost, not the block."""


@dataclass
class Stream:
    """The loop of a run: tasks out, outcomes in, each marked in the ledger as it comes."""

    setup: Setup
    output: Output
    crew: Crew
    stop: StopSignal
    row: int = field(default=0, init=False)
    judged: bool = field(default=False, init=False)

    def run(self, job: Job, pending: list[Block]) -> None:
        """Stream the pending blocks."""
        shape, config = self.setup.layout.shape, self.setup.config
        groups = group_blocks(pending, self.output.read_shape)
        matrices = sum(count_needed(b, shape, config.plan.limit) for b in pending)
        progress = Progress(len(pending), matrices)
        self._look_early(len(pending))
        log.info("%s", self._announce(len(pending)))
        progress.show()
        try:
            for outcome in self.crew.map_blocks(job, groups, self.stop.event):
                if isinstance(outcome, Lost):
                    self._lose(outcome, progress, job)
                    continue
                self.row = 0
                for entry in outcome.value:
                    self.output.ledger.mark(entry)
                    progress.add(entry)
                self._look_early(len(pending) - progress.done)
        finally:
            progress.clear()
        if progress.done:
            log.info("%s", f"solved {progress.seen} matrices at {progress.rate:,.0f}/s")

    def _announce(self, left: int) -> str:
        ledger, size = self.output.ledger, self.setup.size
        done = int((ledger.columns["state"] == State.done).sum())
        return (
            f"blocks: {left} to do, {done} of {len(ledger.blocks)} done; workers: {size.kind}, "
            f"{self.crew.workers} x {size.threads} threads; driver: {self.setup.solver.driver}"
        )

    def _look_early(self, left: int) -> None:
        """Look once, when the first thousand matrices are done, whether to go on."""
        counts = {} if self.judged or not left else self.output.ledger.count_statuses()
        if count_unmasked(counts) < EARLY:
            return
        self.judged = True
        total = sum(block.size for block in self.output.ledger.blocks)
        reason = find_early_end(counts, self.setup.config.run.max_bad, total)
        if reason:
            self.stop.event.set()
            raise StoppedEarly(reason)

    def _lose(self, lost: Lost, progress: Progress, job: Job) -> None:
        """Note a block that could not be done, and go on with the others while there is hope."""
        if isinstance(lost.error, (Interrupted, StorageLost)):
            raise lost.error
        log.debug("".join(traceback.format_exception(lost.error)))
        error = f"{type(lost.error).__name__}: {lost.error}"
        for block in lost.task:
            name = name_block(block, self.output.dims, self.setup.layout.coords)
            log.warning("%s lost: %s", name, error)
            if lost.killed:
                job.give_up(block)
            self.output.ledger.mark_lost(block, error, quarantine=lost.killed)
        progress.lost += len(lost.task)
        self.row += not lost.killed  # a chunk that several blocks share is lost once
        if self.row >= LOSSES:
            raise StorageLost(
                f"{self.row} reads or writes in a row failed, the last by {error}. What was done "
                f"is kept: mend the cause, then the same command goes on"
            ) from lost.error
