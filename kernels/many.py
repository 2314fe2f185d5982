"""Matrices of many sizes in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from kernels.arguments import as_matrices
from kernels.result import Eigen
from kernels.solve import eigh


def eigh_many(matrices: Iterable[Any], **options: Any) -> list[Eigen]:
    """`eigh` of matrices of mixed sizes: those of one size and dtype are solved together.

    Parameters
    ----------
    matrices : iterable of (..., n, n)
        numpy arrays and torch tensors, each with its own n, dtype and batch.
    **options
        As for `eigh`, the same for all; a `subset` must exist in the smallest.

    Returns
    -------
    list of Eigen, one an entry, in the order and of the kind of the input. Answers are those of
    `eigh` to the last bit. Gradients flow as through `eigh`.

    Raises
    ------
    ValueError
        For an entry or an option that `eigh` refuses; the entry is named, before any is solved.
    """
    entries = list(matrices)
    groups: dict[Any, list[int]] = {}
    for i, a in enumerate(entries):
        groups.setdefault(_kind(a, i), []).append(i)
    if options.get("b") is not None:
        raise ValueError("eigh_many: got b, expected none; call eigh for each size")
    found: dict[int, Eigen] = {}
    for rows in groups.values():
        for i, eigen in zip(rows, _solve([entries[i] for i in rows], options), strict=True):
            found[i] = eigen
    return [found[i] for i in range(len(entries))]


def _kind(a: Any, i: int) -> tuple[Any, ...]:
    if isinstance(a, torch.Tensor) and a.ndim >= 2 and a.shape[-1] == a.shape[-2] > 0:
        return a.shape[-1], a.dtype, a.device, a.requires_grad
    stack = as_matrices(a, f"eigh_many: entry {i}")
    return stack.item[0], stack.dtype, None, False


def _solve(group: list[Any], options: dict[str, Any]) -> list[Eigen]:
    n = group[0].shape[-1]
    torches = isinstance(group[0], torch.Tensor)
    flat = [a.reshape(-1, n, n) for a in group]
    whole = eigh(torch.cat(flat) if torches else np.concatenate(flat), **options)
    ends = np.cumsum([math.prod(a.shape[:-2]) for a in group]).tolist()
    out = []
    for a, start, stop in zip(group, [0, *ends], ends, strict=False):
        parts = (x if x is None else x[start:stop] for x in whole)
        out.append(
            Eigen(*(x if x is None else x.reshape((*a.shape[:-2], *x.shape[1:])) for x in parts))
        )
    return out
