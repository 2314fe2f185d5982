"""Stopping: by Ctrl-C or SIGTERM, between blocks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from pipeline.errors import Interrupted
from pipeline.quoting import show_argument

if TYPE_CHECKING:
    from pipeline.places import Place

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """While entered, turns SIGINT and SIGTERM into an event; a second SIGINT leaves at once.

    Leaving at once is safe: blocks are renamed into place whole and marks are
    written in place. Outside the main thread no handler can be set, and the
    event alone remains.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            os._exit(3)
        self.received = signal.Signals(number).name
        self.event.set()
        # os.write: a handler may interrupt a print that holds the stream's lock
        text = f"\n{self.received}: finishing the blocks in flight (Ctrl-C again leaves at once)\n"
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())

    def check(self, path: Place | None = None) -> None:
        """Raise Interrupted if a signal came; `path` is the output, if there is one yet."""
        if self.received and path is None:
            raise Interrupted(f"stopped by {self.received} before anything was written")
        if self.received:
            raise Interrupted(
                f"stopped by {self.received}; what was done is kept. Go on with the same command "
                f"and {show_argument('sink.path', str(path))}"
            )
