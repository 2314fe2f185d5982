"""Which dimensions of an array are batch and which are the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import Misuse


@dataclass(frozen=True)
class Layout:
    """The roles of an array's dimensions.

    Attributes
    ----------
    axes : tuple of int
        The batch dimensions' positions in the stored array, in stored order.
    dims : tuple of str
        Their names; `dim_I` for an unnamed one at stored position I, and a number
        appended to a name that occurred before.
    row, column : int
        The matrix dimensions' positions.
    row_dim : str
        Name of the row dimension; `component` when it has none or shares it with
        a batch dimension.
    stored_row_dim : str or None
        The row dimension's name in the store when it is the same, to find its labels.
    """

    axes: tuple[int, ...]
    dims: tuple[str, ...]
    row: int
    column: int
    row_dim: str
    stored_row_dim: str | None


def arrange(
    what: str,
    names: Sequence[str | None],
    shape: Sequence[int],
    matrix_dims: Sequence[Any] | None,
) -> Layout:
    """Decide on the roles of the dimensions of the array called `what`.

    Raises
    ------
    Misuse
        For fewer than two dimensions, matrix dimensions that are not there or not
        square, or matrices of size 0.
    """
    described = f"{what} has shape {tuple(shape)}, dims ({', '.join(n or '-' for n in names)})"
    if len(shape) < 2:
        raise Misuse(
            f"{described}: a stack of matrices needs at least two dimensions. "
            "Choose another array with source.variable=NAME."
        )
    row, column = _find_matrix(described, names, matrix_dims)
    if shape[row] != shape[column] or shape[row] == 0:
        fault = "are empty" if shape[row] == shape[column] else "are not square"
        raise Misuse(
            f"{described}: matrices of {shape[row]} x {shape[column]} {fault}. If other dimensions "
            "hold the matrix, name them: source.matrix_dims=[ROW,COLUMN] (names or positions); "
            "otherwise choose another array with source.variable=NAME."
        )
    axes = tuple(i for i in range(len(shape)) if i not in (row, column))
    dims = _name_batch(names, axes)
    stored = names[row]
    if stored is None or stored in dims:
        row_dim, stored = "component", None
        while row_dim in dims:
            row_dim += "_"
    else:
        row_dim = stored
    return Layout(axes, dims, row, column, row_dim, stored)


def _find_matrix(
    described: str, names: Sequence[str | None], matrix_dims: Sequence[Any] | None
) -> tuple[int, int]:
    ndim = len(names)
    if matrix_dims is None:
        return ndim - 2, ndim - 1
    if len(matrix_dims) != 2:
        raise Misuse(
            f"source.matrix_dims={list(matrix_dims)}: expected two dimensions [ROW,COLUMN], "
            f"got {len(matrix_dims)}. {described}."
        )
    found: list[int] = []
    for wanted in matrix_dims:
        times = list(matrix_dims).count(wanted)
        found.append(_find_one(described, names, wanted, times, taken=found))
    row, column = found
    if row == column:
        raise Misuse(
            f"source.matrix_dims={list(matrix_dims)} names one dimension twice. {described}."
        )
    return row, column


def _find_one(
    described: str, names: Sequence[str | None], wanted: Any, times: int, taken: list[int]
) -> int:
    """Position of one matrix dimension; a name given twice means its two occurrences in order."""
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if not -len(names) <= wanted < len(names):
            raise Misuse(
                f"source.matrix_dims has position {wanted}, expected {-len(names)} to "
                f"{len(names) - 1}. {described}."
            )
        return wanted % len(names)
    where = [i for i, name in enumerate(names) if (name or f"dim_{i}") == wanted]
    free = [i for i in where if i not in taken]
    if not free:
        raise Misuse(f"source.matrix_dims names {wanted!r}, which is not there. {described}.")
    if len(where) > times and len(where) > 1:
        raise Misuse(
            f"source.matrix_dims names {wanted!r}, a name that {len(where)} dimensions bear. "
            f"Give positions instead. {described}."
        )
    return free[0]


def _name_batch(names: Sequence[str | None], axes: Sequence[int]) -> tuple[str, ...]:
    given = {names[i] for i in axes}
    dims: list[str] = []
    for i in axes:
        name = base = names[i] or f"dim_{i}"
        count = 0
        while name in dims or (name != names[i] and name in given):
            count += 1
            name = f"{base}_{count}"
        dims.append(name)
    return tuple(dims)
