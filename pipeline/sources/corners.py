"""Corners of a path through the Brillouin zone, as text: `L 1/2 1/2 1/2 - G 0 0 0 | U …`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from pipeline.errors import Misuse

EXAMPLE = "'source.kpath=L 1/2 1/2 1/2 - G 0 0 0 - X 1/2 0 1/2'"


class Section(NamedTuple):
    """A straight part of a path: labels of its ends, and where they are."""

    names: tuple[str, str]
    start: tuple[float, ...]
    stop: tuple[float, ...]


def read_corners(text: str, axes: int | None = None) -> list[Section]:
    """Read the corners of a path.

    Parameters
    ----------
    text : str
        Corners `LABEL x y z`, numbers or fractions, with ` - ` between those that a section
        joins, and ` | ` at a jump.
    axes : int, optional
        How many numbers a corner has; None: as many as the first one.

    Raises
    ------
    Misuse
        For anything else.
    """
    sections = []
    for branch in text.split("|"):
        corners = [read_corner(part, text) for part in f" {branch} ".split(" - ")]
        if len(corners) < 2:
            raise refuse_path(text, f"the branch {branch.strip()!r} has one corner; it takes two")
        for (a, start), (b, stop) in pairwise(corners):
            axes = axes or len(start)
            for label, place in ((a, start), (b, stop)):
                if len(place) != axes:
                    raise refuse_path(text, f"{label} has {len(place)} numbers instead of {axes}")
            sections.append(Section((a, b), start, stop))
    return sections


def read_corner(part: str, text: str) -> tuple[str, tuple[float, ...]]:
    """Read one corner: its label and its numbers."""
    words = part.split()
    if not words:
        raise refuse_path(text, "a corner is empty")
    return words[0], read_numbers(words[1:], text)


def read_numbers(words: Sequence[str], text: str) -> tuple[float, ...]:
    """Read numbers and fractions."""
    try:
        numbers = tuple(float(Fraction(w)) if "/" in w else float(w) for w in words)
    except (ValueError, ZeroDivisionError):
        raise refuse_path(text, f"{' '.join(words)!r} are not all numbers") from None
    if not 1 <= len(numbers) <= 3:
        raise refuse_path(text, f"a corner has {len(numbers)} numbers")
    return numbers


def refuse_path(text: str, reason: str) -> Misuse:
    """Say what is wrong with a path."""
    return Misuse(
        f"source.kpath={text!r}: {reason}. Expected corners 'LABEL x y z' with ' - ' between them "
        f"and ' | ' at a jump, for example {EXAMPLE}"
    )
