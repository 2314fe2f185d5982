"""Bands followed through crossings, along one dimension of the batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from kernels.arguments import Array, as_stack
from kernels.gauge import find_clusters

Pairs = tuple[Array, Array]
CLEAR = 0.9
"""A step is taken whole if every band keeps this weight"""
LEAK = 1e-4
"""and bands that pass one another have at most this weight on one another."""
DEPTH = 10
"""Others are halved at most this often."""


class Bands(NamedTuple):
    """Eigenpairs in the order of bands rather than of values, of the kind of the input.

    Attributes
    ----------
    permutation : (..., m) int64; band k has pair `permutation[..., k]` of the input
    values : (..., m), so permuted
    vectors : (..., n, m), so permuted; inside clusters turned to follow the bands
    overlap : (..., m) in [0, 1]; weight of the band's last vector on the pair or cluster it goes
        on in; 1 at the start, NaN at points that are skipped. Where it is small the step is long
    """

    permutation: Any
    values: Any
    vectors: Any
    overlap: Any


def connect_bands(values: Any, vectors: Any, *, dim: int = -1, tol: float = 1e-8) -> Bands:
    """Order eigenpairs so that each band goes on in the pair that its vector overlaps most.

    At each step the squared overlaps |V_before^H V_after|^2 are made and summed over each cluster
    of values (a chain of gaps of at most `tol` max|values|), because inside of it only the span is
    known; the assignment with the largest total is taken (Hungarian method). Where bands enter a
    cluster, its basis is turned to the one nearest to them (the unitary polar factor of the
    overlap, from its singular values), so that bands that cross at a sampled point leave it as
    they came. Bands of equal weight keep the order of their values.

    A step on which some band keeps less than nine tenths of its weight, or passes another that it
    overlaps by more than 1e-4, is halved, at most ten times over, with the mean of the two
    matrices V diag(values) V^H in between: vectors may turn far from one point to the next without
    a crossing. What is avoided by less than about 1/1000 of the change over a step counts as a
    crossing. Points that are not finite are skipped: they keep their own order, and bands are
    joined across them.

    Parameters
    ----------
    values : (..., m) real, numpy.ndarray or torch.Tensor
        Ascending.
    vectors : (..., n, m)
        Columns, as `eigh` gives them.
    dim : int
        The dimension of the batch (of `values` without its last) to go along; the last by default.
    tol : float
        Values nearer than this times the largest |value| are taken as equal.

    Returns
    -------
    Bands
        The first point is in its own order. Along torch tensors that require grad, permutation
        and turning are constants.

    Raises
    ------
    ValueError
        Shapes, dtypes or a dimension that do not belong together.
    """
    lambdas, columns = as_stack(values, "connect_bands: values", 1), as_stack(vectors, "vectors")
    batch = lambdas.batch
    shape = (*batch, columns.item[0], *lambdas.item)
    if lambdas.dtype.kind == "c" or not batch or columns.array.shape != shape:
        raise ValueError(
            f"connect_bands: got values of shape {lambdas.array.shape} and dtype {lambdas.dtype} "
            f"and vectors of shape {columns.array.shape}, expected real (..., m) and (..., n, m) "
            "with at least one dimension before"
        )
    if not -len(batch) <= dim < len(batch):
        raise ValueError(
            f"connect_bands: got dim = {dim}, expected one of the {len(batch)} of batch"
        )
    if not 0 <= tol < 1:
        raise ValueError(f"connect_bands: got tol = {tol!r}, expected 0 <= tol < 1")
    axis = dim % len(batch)
    w, v = (s.take(0, s.count).reshape(s.array.shape) for s in (lambdas, columns))
    w, v = np.moveaxis(w, axis, -2), np.moveaxis(v, axis, -3)
    order, overlap = np.empty(w.shape, np.int64), np.ones(w.shape)
    turn = np.empty((*w.shape, *lambdas.item), v.dtype)
    for index in np.ndindex(w.shape[:-2]):
        _follow(w[index], v[index], tol, order[index], turn[index], overlap[index])
    order, overlap = np.moveaxis(order, -2, axis), np.moveaxis(overlap, -2, axis)
    return _arrange(values, vectors, order, np.moveaxis(turn, -3, axis), overlap)


def _arrange(values: Any, vectors: Any, order: Array, turn: Array, overlap: Array) -> Bands:
    if not isinstance(values, torch.Tensor):
        found = np.take_along_axis(values, order, -1), _turn(np.asarray(vectors), order, turn)
        return Bands(order, *found, overlap)
    index = torch.from_numpy(np.ascontiguousarray(order)).to(values.device)
    weight = torch.from_numpy(np.ascontiguousarray(overlap)).to(values.device)
    if torch.is_grad_enabled() and vectors.requires_grad:
        kept = np.broadcast_to(order[..., None, :], vectors.shape)
        moved = vectors.gather(-1, torch.from_numpy(np.ascontiguousarray(kept)).to(values.device))
        moved = moved @ torch.from_numpy(np.ascontiguousarray(turn)).to(vectors.device)
    else:
        plain = vectors.detach().resolve_conj().resolve_neg().cpu().numpy()
        moved = torch.from_numpy(_turn(plain, order, turn)).to(vectors.device)
    return Bands(index, values.gather(-1, index), moved, weight)


def _turn(vectors: Array, order: Array, turn: Array) -> Array:
    """Permuted columns, turned in the clusters; all others keep their bits."""
    moved = np.take_along_axis(vectors, order[..., None, :], -1)
    size = order.shape[-1]
    moving = (turn != np.eye(size, dtype=turn.dtype)).any((-1, -2))
    moved[moving] = np.einsum("pij,pjk->pik", moved[moving], turn[moving])
    return moved


def _follow(w: Array, v: Array, tol: float, order: Array, turn: Array, overlap: Array) -> None:
    """One line: `order`, `turn` (applied after it) and `overlap` of every point."""
    m = w.shape[1]
    last: int | None = None
    label = find_clusters(w, tol)
    whole = np.atleast_1d(np.isfinite(w).all(-1) & np.isfinite(v).all((-1, -2)))
    for k in range(len(w)):
        order[k], turn[k] = np.arange(m), np.eye(m)
        if not whole[k]:
            overlap[k] = np.nan
            continue
        if last is not None:
            product = v[last].conj().T @ v[k]
            frame = np.eye(m)[:, order[last]] @ turn[last]
            ends = (w[last], np.eye(m)), (w[k], _nearest_unitary(product))
            order[k], turn[k] = _walk(frame, *ends, label[k], tol, DEPTH)
            overlap[k] = _weigh(frame.conj().T @ product, label[k])[np.arange(m), order[k]]
        last = k


def _nearest_unitary(x: Array) -> Array:
    left, _, right = np.linalg.svd(x)
    return np.asarray(left @ right)


def _weigh(product: Array, label: Array) -> Array:
    """Weight of each band on each pair's cluster, (bands, pairs)."""
    return np.asarray(np.minimum((np.abs(product) ** 2) @ (label[:, None] == label), 1.0))


def _is_clear(weight: Array, order: Array, label: Array) -> bool:
    """Whether the bands go on in pairs `order` beyond doubt: `weight` (bands, bands)."""
    passed = (order[:, None] > order) == (np.arange(len(order))[:, None] < np.arange(len(order)))
    passed &= label[:, None] != label
    return bool(weight.diagonal().min() >= CLEAR and weight[passed].max(initial=0) <= LEAK)


def _walk(
    frame: Array, start: Pairs, end: Pairs, label: Array, tol: float, depth: int
) -> tuple[Array, Array]:
    """Order and turn at `end` of the bands whose vectors at `start` are `frame`.

    Everything in the basis of the vectors at the start of the step. Halved, with the mean of the
    two matrices in between, until every band goes on with weight CLEAR.
    """
    product = frame.conj().T @ end[1]
    weight = _weigh(product, label)
    m = len(label)
    index = np.arange(m)
    # among equals the order of values: far below any weight that counts
    tie = 1e-9 * np.abs(np.subtract.outer(index, index)) / m
    order = linear_sum_assignment(weight - tie, maximize=True)[1]
    if depth and not _is_clear(weight[:, order], order, label[order]):
        middle = np.linalg.eigh(sum((v * w) @ v.conj().T for w, v in (start, end)) / 2)
        half = find_clusters(middle[0][None], tol)[0]
        at, turn = _walk(frame, start, middle, half, tol, depth - 1)
        return _walk(middle[1][:, at] @ turn, middle, end, label, tol, depth - 1)
    turn = np.eye(m, dtype=product.dtype)
    for cluster in np.unique(label):
        bands = np.flatnonzero(label[order] == cluster)
        if len(bands) > 1:
            found = _nearest_unitary(product[np.ix_(bands, order[bands])])
            turn[np.ix_(bands, bands)] = found.conj().T
    return order, turn
