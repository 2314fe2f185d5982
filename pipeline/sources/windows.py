"""Windows along a dimension of samples: where they lie, and which are read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.plan import Block

TIMES = ("time", "sample", "samples", "t")


@dataclass(frozen=True)
class Windows:
    """Windows of `length` samples, one every `step`; `count` None: all samples are one window."""

    length: int
    step: int
    count: int | None

    @classmethod
    def lay(cls, samples: int, length: int | None, step: int | None) -> Windows:
        """Lay as many windows as fit whole.

        Raises
        ------
        Misuse
            When not one fits.
        """
        if length is None:
            if not samples:
                raise Misuse("source: there are no samples, so no covariance")
            return cls(samples, samples, None)
        if length > samples:
            raise Misuse(
                f"source.window={length}: there are only {samples} samples; choose a shorter one"
            )
        step = step or length
        return cls(length, step, (samples - length) // step + 1)

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimension of windows, if they are counted."""
        return () if self.count is None else ("window",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extent."""
        return () if self.count is None else (self.count,)

    @property
    def starts(self) -> NDArray[np.int64]:
        """First sample of each window."""
        return np.arange(self.count or 1) * self.step

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """Samples, from and to, of windows `first` to `last` (not included)."""
        return first * self.step, (last - 1) * self.step + self.length

    def group(self, slices: Sequence[slice], samples: int) -> list[tuple[int, int]]:
        """Cut a block's windows into groups that span at most so many samples, if one does."""
        first, stop = (slices[0].start, slices[0].stop) if slices else (0, 1)
        each = max(1, (samples - self.length) // self.step + 1)
        return [(a, min(a + each, stop)) for a in range(first, stop, each)]

    def place(self, number: int, block: Block) -> Any:
        """Where in a block's last dimension a window's matrix goes."""
        return () if self.count is None else number - block.start[-1]

    def within(self, first: int, last: int, block: Block) -> Any:
        """Where in a block's last dimension a group of windows lies."""
        return () if self.count is None else slice(first - block.start[-1], last - block.start[-1])

    def identify(self) -> dict[str, Any]:
        """The windows, JSON-able."""
        return {"length": self.length, "step": self.step, "count": self.count}


def choose_dims(
    names: Sequence[str], sample: str | None, channel: str | None, where: str
) -> tuple[str, str]:
    """Choose which dimension counts samples and which channels.

    The rule: a dimension called time (or sample, samples, t), else the last but one; and the last
    of the others.

    Raises
    ------
    Misuse
        For fewer than two dimensions, or names that are not there.
    """
    there = f"{where} has dimensions {', '.join(names) or 'none'}"
    if len(names) < 2 or len(set(names)) < len(names):
        raise Misuse(f"{there}; expected one of samples and one of channels, each with its name")
    for key, name in (("sample_dim", sample), ("channel_dim", channel)):
        if name is not None and name not in names:
            raise Misuse(f"source.{key}={name}: {there}; choose one of them")
    rest = [name for name in names if name != channel]
    if sample is None:
        named = [name for name in rest if name.lower() in TIMES]
        sample = named[0] if named else rest[-1 if channel else -2]
    if channel is None:
        channel = [name for name in names if name != sample][-1]
    if sample == channel:
        raise Misuse(f"source.sample_dim and source.channel_dim are both {sample}: {there}")
    return sample, channel
