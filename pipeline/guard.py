"""From exceptions to exit codes: the last place that an exception can reach.

0 all well, 1 finished with too many failures, 2 misuse, 3 interrupted and resumable,
4 internal error, or storage lost.
"""

from __future__ import annotations

import os
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from pipeline.errors import Interrupted, Misuse, StorageLost, WorkersLost

Member = TypeVar("Member")
MISUSE, INTERRUPTED, LOST = 2, 3, 4
SHOW = "EIGENSTREAM_TRACEBACK"


def guard(call: Callable[[], int]) -> int:
    """Call a verb and turn whatever it raises into an exit code and one message on stderr.

    An exception may carry the attribute `log_file`: where its traceback has been written.
    """
    try:
        return call()
    except Misuse as error:
        return report(error, MISUSE, str(error))
    except (Interrupted, KeyboardInterrupt) as error:
        return report(error, INTERRUPTED, str(error) or "interrupted")
    except (StorageLost, WorkersLost) as error:
        return report(error, LOST, str(error))
    except BrokenPipeError as error:
        if is_stdout_gone():
            return INTERRUPTED
        return report(error, LOST, describe(error))
    except OSError as error:
        return report(error, LOST, f"storage lost: {error}")
    except Exception as error:
        return report(error, LOST, describe(error))


def report(error: BaseException, code: int, message: str) -> int:
    """Print a message, and on request the traceback; return the code."""
    if os.environ.get(SHOW):
        traceback.print_exception(error)
    print(f"eigenstream: {message}", file=sys.stderr)
    return code


def describe(error: Exception) -> str:
    """Describe an exception that nobody foresaw, in one line, and say where more is."""
    text = " ".join(str(error).split())
    log = getattr(error, "log_file", None)
    where = f"the traceback is in {log}" if log else f"{SHOW}=1 shows the traceback"
    return f"internal error: {type(error).__name__}: {text} ({where})"


def run_many(members: Sequence[Member], run_one: Callable[[Member], int]) -> int:
    """Run the members of a multirun one after another and return the worst exit code.

    A failed member does not keep the others from running; an interrupt does.
    """
    worst = 0
    for number, member in enumerate(members, start=1):
        print(f"eigenstream: run {number} of {len(members)}", file=sys.stderr)
        code = guard(lambda member=member: run_one(member))  # type: ignore[misc]  # bound now
        worst = max(worst, code)
        if code == INTERRUPTED:
            left = len(members) - number
            print(f"eigenstream: interrupted; {left} runs not started", file=sys.stderr)
            break
    return worst


def is_stdout_gone() -> bool:
    """Whether the reader of our output has left, as `head -1` does."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError):  # no poll on Windows; no file behind a captured stdout
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def flush_output() -> None:
    """Flush stdout, and drop what nobody will read: else the interpreter complains at exit."""
    if sys.stdout is None:  # closed by whoever started us
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
