"""From `source.isel` and `source.sel` to the positions to read, and where chunks end in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse

Index = int | range | npt.NDArray[np.int64]
"""Positions along one stored dimension; an int drops the dimension."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One batch dimension: which stored positions are taken, in which chunks they lie.

    Attributes
    ----------
    dim : str
        Name.
    index : int, range or array of int64
        The stored positions, in the order asked for.
    chunk : int
        Extent of a stored chunk along this dimension.
    """

    dim: str
    index: Index
    chunk: int

    def __getstate__(self) -> dict[str, Any]:
        # What is derived is large, and derived again where it is needed.
        return {"dim": self.dim, "index": self.index, "chunk": self.chunk}

    @cached_property
    def positions(self) -> range | npt.NDArray[np.int64]:
        """The stored positions; one for a dropped dimension."""
        return range(self.index, self.index + 1) if isinstance(self.index, int) else self.index

    @property
    def dropped(self) -> bool:
        """Whether the dimension is selected away."""
        return isinstance(self.index, int)

    @cached_property
    def runs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Edges (in the selection) of runs within one stored chunk, and the chunks' numbers."""
        return find_runs(self.positions, self.chunk)

    @property
    def indexer(self) -> int | slice | npt.NDArray[np.int64]:
        """The selection as numpy and xarray take it."""
        if isinstance(self.index, range) and self.index.step > 0:
            return slice(self.index.start, self.index.stop, self.index.step)
        return np.asarray(self.index) if isinstance(self.index, range) else self.index

    def cut(self, chunk: int) -> Axis:
        """The same selection over chunks of another extent."""
        return replace(self, chunk=chunk)

    def identify(self) -> int | dict[str, int] | list[int]:
        """The selection, JSON-able."""
        if isinstance(self.index, range):
            return {"start": self.index.start, "count": len(self.index), "step": self.index.step}
        return self.index if isinstance(self.index, int) else self.index.tolist()

    @property
    def extents(self) -> tuple[int, ...]:
        """Extent of every run; their sum is the selected length."""
        return tuple(np.diff(self.runs[0]).tolist())

    def span(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Runs inside [start, stop) of the selection: local edges, and chunk numbers."""
        edges, cells = self.runs
        first = int(np.searchsorted(edges, start, side="right")) - 1
        last = int(np.searchsorted(edges, stop, side="left"))
        local = np.clip(edges[first : last + 1], start, stop) - start
        return local, cells[first:last]


def find_runs(
    positions: range | npt.NDArray[np.int64], chunk: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut `positions` into runs of neighbours that lie in the same stored chunk.

    Returns
    -------
    edges : array of int64, one longer than the number of runs
    cells : array of int64
        Number of the stored chunk of every run.
    """
    count = len(positions)
    if count == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    if isinstance(positions, range) and positions.step == 1:
        # No list of all positions: a dimension may have 10^9 of them.
        first, last = positions[0] // chunk, positions[-1] // chunk
        cells = np.arange(first, last + 1, dtype=np.int64)
        edges = np.append(cells * chunk - positions[0], count)
        edges[0] = 0
        return edges, cells
    cell = np.asarray(positions, dtype=np.int64) // chunk
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    return np.append(starts, count), cell[starts]


def compact(positions: npt.NDArray[np.int64]) -> range | npt.NDArray[np.int64]:
    """Turn evenly spaced positions into a range."""
    if positions.size == 0:
        return range(0)
    first = int(positions[0])
    step = int(positions[1]) - first if positions.size > 1 else 1
    evenly = step != 0 and bool((np.diff(positions) == step).all())
    return range(first, first + step * positions.size, step) if evenly else positions


def resolve(
    isel: Mapping[str, Any],
    sel: Mapping[str, Any],
    dims: Sequence[str],
    shape: Sequence[int],
    matrix_dims: Sequence[str],
    labels: Mapping[str, npt.NDArray[Any]],
) -> tuple[Index, ...]:
    """Positions to read along every batch dimension.

    Parameters
    ----------
    isel, sel : mapping
        As in the config: by position, by label.
    dims, shape : sequence
        The batch dimensions.
    matrix_dims : sequence of str
        Names by which the matrix dimensions are known; selecting on them is refused.
    labels : mapping of str to array
        The index coordinates, decoded.

    Raises
    ------
    Misuse
        For an unknown dimension, a position out of range, a label that is not there.
    """
    from pipeline.sources.labels import find_labels

    for key, selection in (("isel", isel), ("sel", sel)):
        for dim in selection:
            if dim not in dims:
                why = (
                    "is a dimension of the matrix, which cannot be cut"
                    if dim in matrix_dims
                    else "is not a batch dimension"
                )
                raise Misuse(
                    f"source.{key}: {dim!r} {why}. Batch dimensions: {_sizes(dims, shape)}."
                )
    both = sorted(set(isel) & set(sel))
    if both:
        raise Misuse(f"source.isel and source.sel both select along {both[0]!r}; keep one.")
    found: list[Index] = []
    for dim, size in zip(dims, shape, strict=True):
        if dim in isel:
            found.append(find_positions(dim, isel[dim], size))
        elif dim in sel:
            found.append(find_labels(dim, sel[dim], labels))
        else:
            found.append(range(size))
    return tuple(found)


def _sizes(dims: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{d} ({n})" for d, n in zip(dims, shape, strict=True)) or "none"


def find_positions(dim: str, want: Any, size: int) -> Index:
    """Positions that one value of `source.isel` means along a dimension of `size`.

    `want` is an int (drops the dimension), a list of ints, a text `start:stop:step`,
    or a mapping with `start`, `stop`, `step`. Negative positions count from the end.
    """
    if isinstance(want, str):
        want = _parse_text(dim, want)
    if isinstance(want, Mapping):
        unknown = set(want) - {"start", "stop", "step"}
        if unknown:
            raise Misuse(
                f"source.isel.{dim}: unknown key {sorted(unknown)[0]!r}; expected start, stop, step"
            )
        parts = [want.get(k) for k in ("start", "stop", "step")]
        if not all(p is None or _is_int(p) for p in parts) or parts[2] == 0:
            raise Misuse(f"source.isel.{dim}={want}: start, stop and step are ints, step not 0.")
        return range(*slice(*parts).indices(size))
    if _is_int(want):
        return _wrap(dim, int(want), size)
    if isinstance(want, Sequence) and not isinstance(want, bytes) and all(map(_is_int, want)):
        return compact(np.array([_wrap(dim, int(i), size) for i in want], dtype=np.int64))
    raise Misuse(
        f"source.isel.{dim}={want!r}: expected an int, a list of ints, a text like '0:10:2', "
        "or {start: 0, stop: 10, step: 2}."
    )


def _parse_text(dim: str, text: str) -> int | dict[str, int | None]:
    try:
        parts = [int(p) if p.strip() else None for p in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) == 1 and parts[0] is not None:
        return parts[0]
    if len(parts) not in (2, 3):
        raise Misuse(f"source.isel.{dim}={text!r}: expected 'start:stop' or 'start:stop:step'.")
    return dict(zip(("start", "stop", "step"), parts, strict=False))


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _wrap(dim: str, position: int, size: int) -> int:
    if not -size <= position < size:
        raise Misuse(f"source.isel.{dim}: position {position} is out of range for length {size}.")
    return position % size
