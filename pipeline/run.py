"""The main job. Start reading here: `run` is the whole of it, `process` is one task."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.callable import make_callable
from pipeline.cluster import start_crew
from pipeline.cluster.crew import count_cores
from pipeline.cluster.nursery import open_nursery
from pipeline.columns import OUTCOMES, Entry
from pipeline.config import Config
from pipeline.errors import Misuse, StoppedEarly, StorageLost
from pipeline.job import Setup, prepare
from pipeline.lease import Lease, Pass
from pipeline.ledger import count_needed
from pipeline.logbook import open_log
from pipeline.output import Output, open_output
from pipeline.places import Place
from pipeline.plan import Block, enclose
from pipeline.signals import StopSignal
from pipeline.sink import write_block
from pipeline.spectra import spectrum_is_due, update_spectrum
from pipeline.stages.rounding import Rounding
from pipeline.stages.solve import Solver
from pipeline.stream import Stream
from pipeline.verdict import (
    Verdict,
    explain_bad,
    list_flagged,
    list_lost,
    reach_verdict,
    start_status,
)

log = logging.getLogger("eigenstream")
Data = tuple[NDArray[Any], NDArray[np.bool_]]
FAILED = OUTCOMES.index("failed")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    path : Place
        The output.
    code : int
        The exit code: 0, or 1 if more matrices are bad than allowed.
    verdict : Verdict
        The counts behind it.
    """

    path: Place
    code: int
    verdict: Verdict


@dataclass(frozen=True)
class Job:
    """What a worker must know; carried to each worker once, and called with one task at a time."""

    source: Any
    rounding: Rounding
    path: Place
    names: dict[str, str]
    ticket: Pass
    limit: int | None
    workers: int
    abreast: int

    def __call__(self, group: tuple[Block, ...]) -> list[Entry]:
        return process(self, group)

    @property
    def solver(self) -> Solver:
        """How a matrix is solved."""
        return self.rounding.solver

    def solve(
        self, data: Data | None, part: tuple[slice, ...], status: NDArray[np.uint8]
    ) -> dict[str, NDArray[Any]]:
        """Solve part of what was read, and round what is stored in less precision."""
        if data is None:
            return self.rounding.round(None, self.solver.blank(status[part]))
        matrices, missing = (array[part] for array in data)
        solver = limit_threads(self.solver, self.workers)
        return self.rounding.round(matrices, solver.solve(matrices, missing, status[part]))

    def give_up(self, block: Block) -> None:
        """Write a block that kills whoever works on it: its matrices `failed`, with no answer."""
        status = start_status(block, self.source.shape, self.limit, self.source.todo(block))
        status[status == 0] = FAILED
        results = self.rounding.round(None, self.solver.blank(status))
        self.ticket.check()
        write_block(self.path, block, {name: results[k] for k, name in self.names.items()})


def run(config: Config) -> Outcome:
    """Run a job to its end, or go on with it where it was left.

    Parameters
    ----------
    config : Config
        The config (see `pipeline.config.compose`).

    Returns
    -------
    Outcome
        The output's path, the exit code, and the counts.

    Raises
    ------
    Misuse
        If the job cannot be done as asked; nothing has been written.
    Interrupted
        If it was stopped; the same command goes on.
    StorageLost
        If the input or the output cannot be reached any more.
    """
    with StopSignal() as stop:
        setup = prepare(config)
        stop.check()
        if setup.size.kind == "local":
            open_nursery()
        output = open_output(setup)
        with open_log(output.path):
            return go_on(setup, output, stop)


def go_on(setup: Setup, output: Output, stop: StopSignal) -> Outcome:
    """Do what is left of a run, and judge the whole of it."""
    config = setup.config
    if not list_pending(setup, output) and not spectrum_is_due(output, config):
        log.info("already finished: nothing to do")
        return conclude(setup, output)
    complete = True
    try:
        with (
            Lease(output.ledger.folder) as lease,
            output.launch(setup),
            output.ledger.marking(lease.ticket),
        ):
            complete = work(setup, output, lease.ticket, stop)
    except StoppedEarly as error:
        log.error("stopped early: %s", error)
    except StorageLost:
        raise
    except OSError as error:  # at the ledger, or the provenance
        raise StorageLost(
            f"storage lost: {output.path}: {error}. What was done is kept: mend the cause (space, "
            f"rights, the connection), then the same command goes on"
        ) from error
    return conclude(setup, output, complete)


def list_pending(setup: Setup, output: Output) -> list[Block]:
    """List the blocks that this launch has to do."""
    config, shape = setup.config, setup.layout.shape
    needed = [count_needed(b, shape, config.plan.limit) for b in output.ledger.blocks]
    return output.ledger.find_pending(needed, retry_failed=config.run.retry_failed)


def work(setup: Setup, output: Output, ticket: Pass, stop: StopSignal) -> bool:
    """Start the workers, stream the blocks, then compute what is derived from all of them.

    Says whether all that is derived could be made; what was solved is kept either way.
    """
    crew = start_crew(setup.size)
    try:
        pending = list_pending(setup, output)
        stop.check(output.path)
        if pending:
            job = Job(
                source=setup.source,
                rounding=setup.rounding,
                path=output.path,
                names=output.names,
                ticket=ticket,
                limit=setup.config.plan.limit,
                workers=crew.workers,
                abreast=crew.abreast,
            )
            Stream(setup, output, crew, stop).run(job, pending)
        stop.check(output.path)
        update_spectrum(output, setup.config, crew, stop)
    except Misuse as error:  # known only now that there are eigenvalues
        log.error("%s", error)
        return False
    finally:
        crew.close()
    return True


def process(job: Job, group: tuple[Block, ...]) -> list[Entry]:
    """Read, solve and write the blocks of one task; the only place where these meet.

    The blocks of a group are parts of one stored chunk, which is decoded once.
    What is masked or beyond the limit is neither read nor solved.
    """
    began = time.monotonic()
    hull = enclose(group)
    status = start_status(hull, job.source.shape, job.limit, job.source.todo(hull))
    data = job.source.read(hull, status == 0) if (status == 0).any() else None
    reading = (time.monotonic() - began) / len(group)
    entries = []
    for block in group:
        with take_turn(job.abreast):
            begun = time.monotonic()
            results = job.solve(data, block.within(hull), status)
            solving = time.monotonic() - begun
        if block is group[-1]:
            data = None  # room for what the next task reads
        begun = time.monotonic()
        job.ticket.check()
        write_block(job.path, block, {name: results[k] for k, name in job.names.items()})
        seconds = reading, solving, time.monotonic() - begun
        counts = tuple(int((results["status"] == code).sum()) for code in range(len(OUTCOMES)))
        entries.append(Entry(block, counts, seconds, job.solver.driver, job.solver.device))
    return entries


@cache
def take_turn(abreast: int) -> threading.Semaphore:
    """Hold the right to solve: in each process `abreast` tasks at a time have it.

    There are more tasks than that in flight, so that some read and write meanwhile.
    """
    return threading.Semaphore(abreast)


def limit_threads(solver: Solver, workers: int) -> Solver:
    """Keep workers times threads within the cores of the host that a worker finds itself on."""
    return replace(solver, threads=min(solver.threads, max(1, count_cores() // workers)))


def conclude(setup: Setup, output: Output, complete: bool = True) -> Outcome:
    """Say how the run ended, naming flagged matrices and lost blocks, up to 20 of each."""
    verdict = reach_verdict(output.ledger, setup.config.run.max_bad)
    log.info("%s", f"result: {verdict}")
    coords = setup.layout.coords
    status = output.names["status"]
    for line in list_flagged(output.path, output.ledger, status, output.dims, coords):
        log.warning("%s", line)
    for line in list_lost(output.ledger, output.dims, coords):
        log.warning("%s", line)
    if verdict.code:
        log.error("%s", explain_bad(verdict))
    return Outcome(output.path, max(verdict.code, int(not complete)), verdict)


make_callable(__name__)
