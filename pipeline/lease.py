"""The lease: one writer for each output, taken over when its holder is gone.

Leases are numbered files (or objects), `lease.1`, `lease.2`, … beside the ledger,
and the highest number holds. A lease is taken by creating the next number
exclusively, which the file system (or the object store, by a conditional put)
grants to one process only; nothing is ever deleted to take over, so there is no
moment at which two processes could both believe that they hold it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.errors import Interrupted, Misuse, StorageLost
from pipeline.places import Place, claim, list_names, read_time, replace_text, touch

STALE_SECONDS = 45.0
"""Silence after which a holder on another host counts as gone."""
BEAT_SECONDS = 5.0
HELD: set[str] = set()
"""Tokens of the leases that this process holds."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease.

    `machine` tells apart processes whose numbers mean different things: the
    host's name, its boot, and the process namespace (a container's).
    """

    token: str
    host: str
    machine: str
    pid: int
    born: str
    job: str | None

    def is_dead(self) -> bool:
        """Whether the holder is known to be gone; False where that cannot be known from here."""
        if self.machine != name_machine():
            return False
        if self.pid == os.getpid():  # given up, though the store could not be told
            return self.token not in HELD
        return read_birth(self.pid) != self.born

    def __str__(self) -> str:
        job = f", job {self.job}" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"


def name_machine() -> str:
    """Name the space in which a process number has a meaning."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(str(Path(path).readlink()) if "ns" in path else Path(path).read_text())
        except OSError:
            parts.append("")
    return "|".join(part.strip() for part in parts)


def read_birth(pid: int) -> str:
    """Return when a process started, as its kernel says; empty when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:  # no /proc (macOS): the number alone must do
        os.kill(pid, 0)
        return "alive"
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"


def describe_self() -> Holder:
    """Describe the calling process as a holder."""
    return Holder(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        machine=name_machine(),
        pid=os.getpid(),
        born=read_birth(os.getpid()),
        job=os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID"),
    )


@dataclass(frozen=True)
class Pass:
    """What a worker shows before it writes: the lease's number and token. Picklable."""

    folder: Place
    number: int
    token: str

    def check(self) -> None:
        """Raise Interrupted unless the lease still holds."""
        here = self.folder
        if not (here / f"lease.{self.number + 1}").is_file() and self._is_mine():
            return
        if not here.is_dir():
            raise StorageLost(f"the output is gone: {here.parent.parent}")
        raise Interrupted(f"another run has taken over the output at {self.folder}")

    def _is_mine(self) -> bool:
        holder = read_holder(self.folder / f"lease.{self.number}")
        return holder is not None and holder.token == self.token


class Lease:
    """An exclusive claim on an output, kept alive by a heartbeat until released.

    Parameters
    ----------
    folder : Place
        Where the lease's files lie.

    Raises
    ------
    Misuse
        If another live process holds it.
    """

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self.holder = describe_self()
        HELD.add(self.holder.token)
        try:
            self.number = self._take()
        except BaseException:
            HELD.discard(self.holder.token)
            raise
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @property
    def ticket(self) -> Pass:
        """What workers need in order to check the lease."""
        return Pass(self.folder, self.number, self.holder.token)

    def _take(self) -> int:
        draft = self.folder / f"draft.{self.holder.token}"
        try:
            draft.write_text(json.dumps(asdict(self.holder)))
        except OSError as error:
            raise Misuse(f"the output cannot be written: {error}") from error
        try:
            while True:
                number, holder, age = read_latest(self.folder, draft)
                if holder is not None and not holder.is_dead() and age < STALE_SECONDS:
                    raise Misuse(
                        f"{holder} is writing this output (last sign of life {age:.0f} s ago): "
                        f"{self.folder.parent.parent}. Wait for it to end, stop it, or give "
                        f"another sink.path"
                    )
                if claim(draft, self.folder / f"lease.{number + 1}"):
                    return number + 1
        finally:
            draft.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError):  # a file server may hiccup; the next beat counts
                touch(self.folder / f"lease.{self.number}")

    def release(self) -> None:
        """Give the lease back; older numbers go too, the newest stays as an empty mark."""
        self._stop.set()
        self._thread.join()
        HELD.discard(self.holder.token)
        mine = self.folder / f"lease.{self.number}"
        with contextlib.suppress(OSError):  # a full disk, or a removed output, has its own error
            if (self.folder / f"lease.{self.number + 1}").is_file():
                return
            replace_text(mine, "")
            for number in list_numbers(self.folder):
                if number < self.number:
                    (self.folder / f"lease.{number}").unlink(missing_ok=True)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def read_holder(path: Place) -> Holder | None:
    """Read who holds a lease file; None if it was released or is not there."""
    try:
        text = path.read_text()
        return Holder(**json.loads(text)) if text else None
    except FileNotFoundError:
        return None


def list_numbers(folder: Place) -> list[int]:
    """List the numbers of all leases in a folder."""
    return [int(name[6:]) for name in list_names(folder) if name.startswith("lease.")]


def read_latest(folder: Place, clock: Place | None = None) -> tuple[int, Holder | None, float]:
    """Return the newest lease's number, its holder, and the seconds since its last heartbeat.

    `clock` is a file in the same folder, touched here, so that both times come
    from the file server and hosts' clocks need not agree.
    """
    numbers = list_numbers(folder)
    if not numbers:
        return 0, None, 0.0
    newest = folder / f"lease.{max(numbers)}"
    if clock:
        touch(clock)
    now = read_time(clock) if clock else time.time()
    try:
        age = now - read_time(newest)
    except FileNotFoundError:
        age = 0.0
    return max(numbers), read_holder(newest), age
