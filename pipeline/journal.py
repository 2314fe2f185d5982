"""Marks of blocks on an object store, where no byte can be changed in place.

Marks are records of fixed size in numbered objects, `marks/00000001`, … Each is created
exclusively, written again, whole, as marks come in, and left alone once it holds RECORDS of them:
so there is one object for a thousand blocks, and none is rewritten by two processes. One thread
writes: what is marked while a write is under way goes with the next one, so that a slow store
delays no block, and a kill costs the marks of one request.

When a launch ends, its marks are folded into the ledger's arrays and their objects removed; a
killed launch's marks are read along until then. The attribute `folded` of the group `run/` is the
last number that the arrays contain, so that a kill between the two steps does no harm.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.places import Remote, list_names

RECORDS = 1024
"""Marks in an object, some 130 kB."""


class Journal:
    """The marks that the ledger's arrays do not contain yet.

    Parameters
    ----------
    folder : Remote
        Where its objects lie.
    record : numpy.dtype
        Type of one mark.
    """

    def __init__(self, folder: Remote, record: np.dtype[Any]) -> None:
        self.folder, self.record = folder, record
        self.last = 0
        self._rows: list[bytes] = []
        self._number = 0
        self._error: OSError | None = None
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._dirty = False

    def read(self, folded: int) -> NDArray[Any]:
        """Read all marks in objects after number `folded`, in the order in which they were made."""
        numbers = sorted(int(name) for name in list_names(self.folder) if name.isdigit())
        self.last = max([folded, *numbers])
        parts = [self._read_one(number) for number in numbers if number > folded]
        return np.concatenate([np.zeros(0, self.record), *parts])

    def _read_one(self, number: int) -> NDArray[Any]:
        try:
            content = self._place(number).read_bytes()
        except FileNotFoundError:  # folded meanwhile; the arrays are read after this
            content = b""
        return np.frombuffer(content, self.record)

    def _place(self, number: int) -> Remote:
        return self.folder / f"{number:08d}"

    def append(self, row: NDArray[Any]) -> None:
        """Add a mark, to be written at once, but not waited for."""
        with self._news:
            self._raise()
            self._rows.append(row.tobytes())
            self._dirty = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
                self._thread.start()
            self._news.notify_all()

    def flush(self) -> None:
        """Wait until every mark is stored."""
        with self._news:
            self._news.wait_for(lambda: self._error or not self._dirty)
            self._raise()

    def _raise(self) -> None:
        if self._error:
            raise self._error

    def _write(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._dirty)
                rows = self._rows[:RECORDS]
            try:
                self._store(b"".join(rows))
            except OSError as error:
                with self._news:
                    self._error = error
                    self._news.notify_all()
                return
            with self._news:
                if len(rows) == RECORDS:
                    del self._rows[:RECORDS]
                    self._number = 0
                self._dirty = len(self._rows) > (0 if len(rows) == RECORDS else len(rows))
                self._news.notify_all()

    def _store(self, content: bytes) -> None:
        """Write the newest object: the first time under a number that nobody else has."""
        if self._number:
            self._place(self._number).write_bytes(content)
            return
        while True:
            self.last += 1
            if self._place(self.last).create(content):
                self._number = self.last
                return

    def remove(self) -> None:
        """Remove all objects, once what they say is in the arrays."""
        self.flush()
        with self._news:
            self._rows.clear()
            self._number = 0
        self.folder.clear()
