"""Progress: one live line on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass, field

from pipeline.columns import BAD, MASKED, NOT_RUN, Entry

log = logging.getLogger("eigenstream")
LINE_SECONDS = 10.0
DRAW_SECONDS = 0.2


@dataclass
class Progress:
    """Counts what is done and shows it on stderr.

    Parameters
    ----------
    blocks, matrices : int
        How many this launch has to do.
    """

    blocks: int
    matrices: int
    done: int = 0
    seen: int = 0
    flagged: int = 0
    lost: int = 0
    _start: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _drawn: bool = False

    def add(self, entry: Entry) -> None:
        """Count a block that is done."""
        self.done += 1
        self.seen += skip_masked(entry.counts)
        self.flagged += sum(entry.counts[code] for code in BAD)
        self.show()

    @property
    def rate(self) -> float:
        """Matrices a second since the start."""
        return self.seen / max(1e-9, time.monotonic() - self._start)

    def __str__(self) -> str:
        if not self.done:
            return f"0/{self.blocks} blocks, {self.matrices} matrices to do"
        # by blocks: how many matrices of those to come are masked is not known yet
        left = (time.monotonic() - self._start) / self.done * (self.blocks - self.done)
        lost = f", {self.lost} blocks lost" if self.lost else ""
        return (
            f"{self.done}/{self.blocks} blocks, {self.seen} matrices, "
            f"{self.rate:,.0f}/s, {self.flagged} flagged{lost}, {format_seconds(left)} left"
        )

    def show(self) -> None:
        """Show where things stand, if it is time to."""
        now, live = time.monotonic(), sys.stderr is not None and sys.stderr.isatty()
        if now - self._shown < (DRAW_SECONDS if live else LINE_SECONDS):
            return
        if live:
            sys.stderr.write(f"\r\x1b[K{self}")
            sys.stderr.flush()
            self._drawn = True
        elif self.done and self._shown:
            log.info("%s", self)
        self._shown = now

    def clear(self) -> None:
        """Take the live line away, so that what follows starts on a clean one."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def format_seconds(seconds: float) -> str:
    """Format a duration as people say it: `45 s`, `3 min 20 s`, `5 h 12 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_bytes(count: float) -> str:
    """Format a number of bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def skip_masked(counts: tuple[int, ...]) -> int:
    """Count the matrices that were to be solved: neither masked nor left out."""
    return sum(counts) - counts[MASKED] - counts[NOT_RUN]
