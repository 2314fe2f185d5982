"""Blocks: the addresses into which a stack is cut, and the rules that cut it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, order=True)
class Block:
    """An address: one hyper-rectangle of a stack's batch dimensions.

    Attributes
    ----------
    index : int
        Position in the run's block list.
    start, stop : tuple of int
        First and one-past-last position along every batch dimension. Both are
        empty for a single matrix without batch dimensions.
    """

    index: int
    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """One slice for each batch dimension."""
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent along each batch dimension."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        """Number of matrices."""
        return prod(self.shape)
