"""The inner loops in plain torch operations, in the written order of csrc/: the same numbers.

Used where the compiled module is missing; slow on the CPU. The signatures and meanings are those
of `kernels/_core.pyi`. Complex numbers are kept as pairs of real tensors and sums are written
out, since library reductions and products may reorder or fuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # not in torch's stubs

from kernels.arguments import Array

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]
_LOWER, _UPPER, _BOTH = 0, 1, 2


def _tensor(a: Array) -> Tensor:
    return torch.from_numpy(np.array(a, order="C"))


def _pair(a: Array) -> Pair:
    """Real and imaginary parts in double."""
    t = _tensor(a)
    if t.is_complex():
        return t.real.double(), t.imag.double()
    return t.double(), torch.zeros(t.shape, dtype=torch.float64)


def _scale(x: Tensor, exponent: Tensor) -> Tensor:
    """x 2^exponent, by two halves (2^1074 is no double)."""
    shape = exponent.shape + (1,) * (x.ndim - exponent.ndim)
    first = torch.div(exponent, 2, rounding_mode="trunc")
    for half in (first, exponent - first):
        x = x * _tensor(np.ldexp(1.0, half.numpy())).reshape(shape)
    return x


def _root(x: Tensor) -> Tensor:
    """Correctly rounded; torch's own square root goes through MKL's VML, which is not always."""
    return torch.from_numpy(np.sqrt(x.numpy()))


def _modulus(re: Tensor, im: Tensor) -> Tensor:
    a, b = re.abs(), im.abs()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    ratio = small / large
    return torch.where(small == 0, large, large * _root(1.0 + ratio * ratio))


def _load(a: Array, triangle: int, exponent: Tensor) -> Pair:
    """The matrices to be solved, whole, scaled and rounded to the precision of `a`."""
    re, im = (_scale(x, exponent) for x in _pair(a))
    if triangle == _UPPER:
        re, im = re.mT, -im.mT
    if triangle == _BOTH:
        re, im = (re + re.mT) * 0.5, (im - im.mT) * 0.5
    if a.dtype.char in "fF":
        re, im = re.float().double(), im.float().double()
    re, im = re.tril(), im.tril(-1)
    return re + re.tril(-1).mT, im - im.mT


def scan(a: Array, triangle: int, finite: Array, exponent: Array, defect: Array) -> None:
    re, im = _pair(a)
    if triangle != _BOTH:
        cut = torch.tril if triangle == _LOWER else torch.triu
        keep = cut(torch.ones(re.shape[-2:], dtype=torch.bool))
        zero = torch.zeros((), dtype=torch.float64)
        re = torch.where(keep, re, zero)
        keep.fill_diagonal_(False)
        im = torch.where(keep, im, zero)
    size = torch.maximum(re.abs(), im.abs()).flatten(1)
    finite[:] = torch.isfinite(size).all(1).numpy()
    peak = size.amax(1).numpy()
    exponent[:], defect[:] = np.where(finite, np.frexp(peak)[1], 0), 0.0
    rows = np.flatnonzero(finite & (peak > 0))
    if triangle == _BOTH and rows.size:
        power = torch.from_numpy(-exponent[rows])
        p, q = (_scale(x[rows], power) for x in (re, im))
        apart = _modulus(p - p.mT, q + q.mT).flatten(1)
        largest = (p * p + q * q).flatten(1)
        defect[rows] = (apart.amax(1) / _root(largest.amax(1))).numpy()


def lanes_sets() -> list[str]:
    """None: there is no lanes driver in torch operations."""
    return []


def lanes(*arguments: Any) -> None:
    """Named for `kernels.primitives` only: with no set in `lanes_sets` nothing chooses it."""
    raise NotImplementedError("the lanes driver needs the compiled module kernels._core")


def lapack(
    a: Array,
    triangle: int,
    exponent: Array,
    skip: Array,
    routine: int,
    divide: bool,
    in_double: bool,
    values: Array,
    vectors: Array | None,
    failed: Array,
) -> None:
    failed[:], values[:] = False, np.nan
    if vectors is not None:
        vectors[:] = np.nan
    dtype = torch.from_numpy(np.empty(0, np.result_type(a, np.float64) if in_double else a.dtype))
    h = _load(a, triangle, torch.from_numpy(exponent))
    whole = (torch.complex(*h) if a.dtype.kind == "c" else h[0]).to(dtype.dtype)
    for b in np.flatnonzero(~skip):
        try:
            w, v = _solve(whole[b], divide, vectors is not None)
        except (LinAlgError, np.linalg.LinAlgError):
            failed[b] = True
            continue
        values[b] = _scale(w.double(), torch.tensor(-int(exponent[b]))).numpy()
        if vectors is not None and v is not None:
            vectors[b] = v.numpy()


def _solve(h: Tensor, divide: bool, vectors: bool) -> tuple[Tensor, Tensor | None]:
    if divide:
        return tuple(torch.linalg.eigh(h)) if vectors else (torch.linalg.eigvalsh(h), None)
    import scipy.linalg

    matrix: Any = h.numpy()
    w, v = scipy.linalg.eigh(matrix, driver="ev")
    return torch.from_numpy(w), torch.from_numpy(np.ascontiguousarray(v))


def _times(ar: Tensor, ai: Tensor, xr: Tensor, xi: Tensor) -> Pair:
    """Product with its sums written out: columns of A times entries of x, first to last."""
    yr = yi = torch.zeros(ar.shape[:-1], dtype=torch.float64)
    for k in range(ar.shape[-1]):
        a, b, c, d = ar[..., k], ai[..., k], xr[..., k, None], xi[..., k, None]
        yr, yi = yr + (a * c - b * d), yi + (a * d + b * c)
    return yr, yi


def _inner(vr: Tensor, vi: Tensor, yr: Tensor, yi: Tensor) -> Pair:
    """V^H y, rows first to last."""
    gr = gi = torch.zeros(vr.shape[:-2] + vr.shape[-1:], dtype=torch.float64)
    for i in range(vr.shape[-2]):
        a, b, c, d = vr[..., i, :], vi[..., i, :], yr[..., i, None], yi[..., i, None]
        gr, gi = gr + (a * c + b * d), gi + (a * d - b * c)
    return gr, gi


def _sum(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[:-1], dtype=torch.float64)
    for k in range(x.shape[-1]):
        total = total + x[..., k]
    return total


def residual(
    a: Array,
    triangle: int,
    exponent: Array,
    values: Array,
    vectors: Array | None,
    x: Array,
    full: bool,
    eps: float,
    quantum: float,
    out: Array,
) -> None:
    power = torch.from_numpy(exponent)
    ar, ai = _load(a, triangle, power)
    raw = _tensor(values).double()
    lam = _scale(raw, power)
    finite = torch.isfinite(ar + ai).flatten(1).all(1) & torch.isfinite(raw).all(1)
    v = None if vectors is None else _pair(vectors)
    if v is not None:
        finite &= torch.isfinite(v[0] + v[1]).flatten(1).all(1)
    peak = torch.maximum(torch.maximum(ar.abs(), ai.abs()).flatten(1).amax(1), lam.abs().amax(1))
    move = ((peak < 2.0**-200) | (peak > 2.0**200)) & (peak > 0) & torch.isfinite(peak)
    shift = torch.where(move, -torch.frexp(peak).exponent, 0)
    q = _scale(_scale(torch.full_like(peak, quantum), power), shift)
    ar, ai, lam = _scale(ar, shift), _scale(ai, shift), _scale(lam, shift)
    size = torch.maximum(_root((ar * ar + ai * ai).flatten(1).amax(1)), lam.abs().amax(1))
    value_eps = torch.where(size > 0, torch.clamp(q / size, min=eps), eps)
    n = float(a.shape[-1])
    if v is None:
        first = _values(ar, ai, lam, size) / (n * value_eps)
        found = torch.where(size == 0, 0.0, first)
    else:
        apart, skew = _full(ar, ai, lam, v) if full else _probe(ar, ai, lam, v, _tensor(x))
        first = torch.where(apart == 0, 0.0, apart / size / (n * value_eps))
        found = torch.maximum(first, skew / (n * eps))
    found = torch.where(found.isnan() | ~torch.isfinite(peak), torch.inf, found)
    found = torch.where(finite, found, torch.nan)
    out[:] = found.float().numpy()


def _probe(ar: Tensor, ai: Tensor, lam: Tensor, v: Pair, x: Tensor) -> Pair:
    m = lam.shape[-1]
    xr, xi = (part[:m].expand(lam.shape) for part in x)
    yr, yi = _times(*v, xr, xi)
    ur, ui = _times(*v, lam * xr, lam * xi)
    zr, zi = _times(ar, ai, yr, yi)
    gr, gi = _inner(*v, yr, yi)
    return _norm(zr - ur, zi - ui), _norm(gr - xr, gi - xi)


def _norm(re: Tensor, im: Tensor) -> Tensor:
    return _root(_sum(re * re + im * im))


def _full(ar: Tensor, ai: Tensor, lam: Tensor, v: Pair) -> Pair:
    apart, skew = [], []
    identity = torch.eye(lam.shape[-1], dtype=torch.float64)
    for k in range(lam.shape[-1]):
        pr, pi = v[0][..., k], v[1][..., k]
        zr, zi = _times(ar, ai, pr, pi)
        zr, zi = zr - lam[..., k, None] * pr, zi - lam[..., k, None] * pi
        gr, gi = _inner(*v, pr, pi)
        gr = gr - identity[k]
        apart.append(zr * zr + zi * zi)
        skew.append(gr * gr + gi * gi)
    return _root(_sum(torch.cat(apart, -1))), _root(_sum(torch.cat(skew, -1)))


def _values(ar: Tensor, ai: Tensor, lam: Tensor, size: Tensor) -> Tensor:
    trace = _sum(torch.diagonal(ar, dim1=-2, dim2=-1))
    norm = _sum(_sum(ar * ar + ai * ai))
    drop = torch.zeros_like(size)
    if lam.shape[-1] > 1:
        drop = torch.clamp((lam[..., :-1] - lam[..., 1:]).amax(-1), min=0)
    first = (_sum(lam) - trace).abs() / size
    second = (_sum(lam * lam) - norm).abs() / (size * size)
    return torch.maximum(torch.maximum(first, second), drop / size)


def gauge(vectors: Array) -> None:
    re, im = _pair(vectors)
    eps = float(np.finfo(vectors.dtype).eps)
    n, edge = re.shape[-2], 1.0 - eps**0.5
    size = _modulus(re, im)
    largest = size.amax(-2, keepdim=True)
    size = size / largest
    rows = torch.arange(n)[:, None].expand(re.shape)

    def first(mask: Tensor) -> Tensor:
        return torch.where(mask, rows, n).amin(-2, keepdim=True)

    pivot = first(size >= edge).clamp(max=n - 1)
    p, q, length = (x.gather(-2, pivot) for x in (re, im, _modulus(re, im)))
    leave = ~((largest > 0) & torch.isfinite(largest))
    if vectors.dtype.kind != "c":
        vectors[:] = torch.where(leave | (p > 0), re, -re).numpy()
        return
    exact = (im == 0) & (re > 0) & (size >= edge - 8.0 * eps)
    leave |= first(exact) <= first(size >= edge + 8.0 * eps)
    c, s = p / length, q / length
    turned = re * c + im * s, im * c - re * s
    turned[0].scatter_(-2, pivot, length)
    turned[1].scatter_(-2, pivot, torch.zeros_like(length))
    vectors.real[:] = torch.where(leave, re, turned[0]).numpy()
    vectors.imag[:] = torch.where(leave, im, turned[1]).numpy()
