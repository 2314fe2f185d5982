"""Bundles: tasks that travel together, so that small ones do not each pay for the journey."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pipeline.cluster.crew import Lost, Outcome, attempt

BUNDLE_SECONDS = 0.1
"""Work that a bundle is to hold: many times what its journey costs (some milliseconds), and
little enough that nobody waits for the last one, or for a stop."""
LARGEST = 64
"""Tasks in a bundle at most; they are what a kill may cost beyond those being worked on."""


@dataclass(frozen=True)
class Report:
    """What became of a bundle: each task's outcome, and the seconds for all of them.

    With a `failure` it is not the worker who says so: it died, or cannot be reached.
    """

    outcomes: list[Outcome]
    seconds: float = 0.0
    failure: BaseException | None = None


class Bundles:
    """A stream of tasks, cut into bundles that grow while they take less than BUNDLE_SECONDS."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        self._tasks = iter(tasks)
        self.size = 1

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while bundle := tuple(islice(self._tasks, self.size)):
            yield bundle

    def learn(self, report: Report) -> None:
        """Take what a bundle cost into account for those to come."""
        each = report.seconds / len(report.outcomes)
        wanted = int(BUNDLE_SECONDS / max(each, 1e-6))
        self.size = max(1, min(wanted, 2 * self.size, LARGEST))


def carry_out(fn: Callable[[Any], Any], bundle: tuple[Any, ...]) -> Report:
    """Carry out the tasks of a bundle, one after the other."""
    began = time.monotonic()
    outcomes = [pack_error(attempt(fn, task)) for task in bundle]
    return Report(outcomes, time.monotonic() - began)


def pack_error(outcome: Outcome) -> Outcome:
    """Make an error fit to travel: its traceback as a note; replaced if it does not pickle."""
    if not isinstance(outcome, Lost):
        return outcome
    error = outcome.error
    error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the error's own methods raise
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return Lost(outcome.task, error, outcome.killed)
