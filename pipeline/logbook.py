"""The log of a run, beside its output."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator

from pipeline.errors import Interrupted, Misuse, StoppedEarly
from pipeline.places import Place, Remote

log = logging.getLogger("eigenstream")


@contextlib.contextmanager
def open_log(path: Place) -> Iterator[None]:
    """Write the log to `<output>.log`, beside the output, while entered.

    An exception that nobody foresaw leaves its traceback there, and says so in `log_file`.
    On an object store, where nothing can be appended, it is written when the launch ends.
    """
    file, text = path.with_name(path.name + ".log"), io.StringIO()
    handler: logging.Handler
    try:
        if isinstance(file, Remote):
            handler = logging.StreamHandler(text)
        else:
            handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:  # to look at a finished run, no log is needed
        log.warning("no log is written: %s", error)
        yield
        return
    handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.setLevel(logging.DEBUG)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    except (Misuse, Interrupted, StoppedEarly) as error:
        log.debug("%s", error)  # the screen gets it from pipeline.guard
        raise
    except Exception as error:
        log.debug("traceback", exc_info=True)
        error.log_file = file  # type: ignore[attr-defined]  # shown by pipeline.guard
        raise
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        handler.close()
        if isinstance(file, Remote):
            append_log(file, text.getvalue())


def append_log(file: Remote, text: str) -> None:
    """Put a launch's log after those of the launches before."""
    try:
        before = file.read_text(errors="replace") if file.is_file() else ""
        file.write_text(before + text)
    except OSError as error:  # a lost store has its own error
        log.warning("no log is written: %s", error)
