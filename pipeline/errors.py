"""The exceptions that carry an exit code and a message for the user."""

from __future__ import annotations


class Misuse(ValueError):
    """A request that cannot be carried out; raised before work starts (exit code 2).

    The message says what, where, got, expected, and what to do.
    """


class Interrupted(Exception):
    """The run was asked to stop, or ran out of time; it can be resumed (exit code 3)."""


class StoppedEarly(Exception):
    """The first results say that going on makes no sense; the message says why (exit code 1)."""


class StorageLost(OSError):
    """The input or the output cannot be reached any more (exit code 4)."""


class WorkersLost(Exception):
    """Workers died and nothing is left that could do the work; it can be resumed (exit code 4)."""


class ReadError(OSError):
    """Part of the input is there but cannot be read or decoded; names the chunk and the block.

    The blocks it touches are recorded as failed; the others go on.
    """
