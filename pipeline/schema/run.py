"""The group `run`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import checks


@dataclass
class RunConfig:
    """How a run goes on, and when it counts as failed.

    Attributes
    ----------
    resume : true | false
        Go on with what is at `sink.path`; false: refuse when something is there.
    max_bad : float
        Matrices that may fail before the exit code is 1: a count, or below 1 a fraction.
    retry_failed : true | false
        On resuming, try again the blocks that were given up.
    """

    resume: bool = True
    max_bad: float = 0
    retry_failed: bool = False

    def __post_init__(self) -> None:
        checks.check_least("run.max_bad", self.max_bad, 0)
        if self.max_bad > 1 and self.max_bad != int(self.max_bad):
            raise checks.refuse(
                "run.max_bad",
                repr(self.max_bad),
                "a whole number of matrices, or a fraction below 1",
                f"for example run.max_bad={int(self.max_bad)}",
            )
