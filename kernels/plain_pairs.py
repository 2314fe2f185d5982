"""A few pairs, and pairs of A x = lambda B x, in plain operations; see `kernels/plain.py`.

The meanings are those of `kernels/_core.pyi`; the last bits are not promised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import plain
from kernels.arguments import Array


def _whole(a: Array, triangle: int) -> tuple[Array, Array]:
    """The Hermitian matrix that is solved, near 1 in double, and the power of two taken out."""
    wide: Any = a.astype(np.result_type(a.dtype, np.float64))
    peak = np.maximum(np.abs(wide.real), np.abs(wide.imag)).max((-1, -2), initial=0.0)
    power = np.where(np.isfinite(peak), np.frexp(peak)[1], 0).astype(np.int32)
    power += power % 2
    wide = _scaled(wide, -power)
    if triangle == plain._BOTH:
        return (wide + wide.conj().swapaxes(-1, -2)) / 2, power
    low = np.tril(wide, -1)
    if triangle == plain._UPPER:
        low = np.triu(wide, 1).conj().swapaxes(-1, -2)
    index = np.arange(a.shape[-1])
    whole = low + low.conj().swapaxes(-1, -2)
    whole[:, index, index] = wide.real[:, index, index]
    return whole, power


def _scaled(a: Array, power: Array) -> Array:
    shape = (-1,) + (1,) * (a.ndim - 1)
    half = power // 2
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        once = a * np.ldexp(1.0, half).reshape(shape)
        scaled: Array = once * np.ldexp(1.0, power - half).reshape(shape)
    return scaled


def _norm(x: Array, axes: Any = -1) -> Array:
    found: Array = np.sqrt((np.abs(x) ** 2).sum(axes))
    return found


def few(
    a: Array,
    triangle: int,
    skip: Array,
    lo: int,
    x: Array,
    eps: float,
    values: Array,
    vectors: Array | None,
    form: Array,
    power: Array,
    defect: Array,
    failed: Array,
    isa: str = "",
) -> None:
    n, m = a.shape[-1], values.shape[1]
    probe = x[0] + 1j * x[1] if a.dtype.kind == "c" else x[0]
    h, taken = _whole(a, triangle)
    for b in np.flatnonzero(~skip):
        failed[b] = not np.isfinite(h[b]).all()
        if failed[b]:
            continue
        w, v = np.linalg.eigh(h[b])
        power[b] = taken[b]
        form[b, :n], form[b, n:] = w, 0.0  # T may be diagonal
        norm = max(np.abs(w).max(), np.finfo(float).tiny)
        apart = _norm(h[b] @ (v @ probe) - v @ (w * probe)) / norm
        skew = _norm(v.conj().T @ (v @ probe) - probe)
        defect[b] = max(apart, skew) / (n * eps)
        values[b] = _scaled(w[None, lo : lo + m], taken[b : b + 1])[0]
        if vectors is not None:
            vectors[b] = v[:, lo : lo + m]


def places(
    form: Array, power: Array, values: Array, lo: int, unit: float, least: float, in_place: Array
) -> None:
    n = form.shape[1] // 2
    scaled = _scaled(values, -power)
    norm = np.maximum(np.abs(form).max(-1), np.abs(scaled).max(-1, initial=0.0))
    floor = _scaled(np.full(len(power), least), -power)
    delta = np.maximum(np.maximum(unit * norm, floor), 2.0**-390)[:, None]
    rank = lo + np.arange(values.shape[1])
    below, above = (_count(form, n, scaled + sign * delta) for sign in (-1, 1))
    in_place[:] = ((below <= rank) & (above >= rank + 1)).all(-1)


def _count(form: Array, n: int, shift: Array) -> Array:
    """How many eigenvalues of each T lie below each shift."""
    q = form[:, :1] - shift
    found: Array = np.signbit(q).astype(int)
    with np.errstate(divide="ignore", over="ignore"):
        for i in range(1, n):
            square = form[:, n + i - 1, None] ** 2 + 2.0**-800
            q = (form[:, i, None] - shift) - square / q
            found += np.signbit(q)
    return found


def pencil_reduce(
    a: Array,
    b: Array,
    triangle: int,
    skip: Array,
    x: Array | None,
    eps: float,
    reduced: Array,
    factor: Array,
    power_a: Array,
    power_b: Array,
    defect: Array,
    largest: Array,
    definite: Array,
) -> None:
    n = a.shape[-1]
    (left, taken_a), (right, taken_b) = _whole(a, triangle), _whole(b, triangle)
    for i in np.flatnonzero(~skip):
        lower = _cholesky(right[i], n * eps)
        definite[i] = lower is not None
        if lower is None:
            continue
        half = np.linalg.solve(lower, left[i])
        c = np.linalg.solve(lower, half.conj().T)
        c = (c + c.conj().T) / 2
        with np.errstate(over="ignore"):
            reduced[i], factor[i] = c.astype(reduced.dtype), lower
        power_a[i], power_b[i] = taken_a[i], taken_b[i]
        if x is None:
            continue
        probe = x[0] + 1j * x[1] if a.dtype.kind == "c" else x[0]
        c = reduced[i].astype(c.dtype)
        y = lower.conj().T @ probe
        largest[i] = max(np.abs(c.real).max(), np.abs(c.imag).max())
        first = _norm(lower @ (c @ y) - left[i] @ probe) / max(1.0, largest[i])
        defect[i] = max(first, _norm(lower @ y - right[i] @ probe)) / (n * eps)


def _cholesky(b: Array, least: float) -> Array | None:
    if not np.isfinite(b).all():
        return None
    try:
        lower: Array = np.linalg.cholesky(b)
    except np.linalg.LinAlgError:
        return None
    good = np.diagonal(lower).real ** 2 > least * np.diagonal(b).real
    return lower if good.all() else None


def pencil_back(
    factor: Array, power_a: Array, power_b: Array, values: Array, vectors: Array | None
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        values[:] = _scaled(values.astype(float), power_a - power_b)
        if vectors is None:
            return
        for i in np.flatnonzero(np.isfinite(factor).all((-1, -2)) & (factor[:, 0, 0] != 0)):
            upper = factor[i].conj().T
            x = np.linalg.solve(upper, vectors[i].astype(factor.dtype))
            vectors[i] = _scaled(x[None], -power_b[i : i + 1] // 2)[0]


def pencil_residual(
    a: Array,
    b: Array,
    triangle: int,
    values: Array,
    vectors: Array,
    floor: Array,
    x: Array,
    full: bool,
    eps: float,
    quantum: float,
    out: Array,
) -> None:
    n, m = vectors.shape[1:]
    (left, p), (right, q) = _whole(a, triangle), _whole(b, triangle)
    with np.errstate(all="ignore"):
        lam = _scaled(values.astype(float), q - p)
        v = _scaled(vectors.astype(left.dtype), q // 2)
        finite = np.isfinite(values).all(-1)
        for part in (a, b, vectors):
            finite &= np.isfinite(part).all((-1, -2))
        size_b = np.abs(right).max((-1, -2))
        norm = np.abs(left).max((-1, -2)) + size_b * np.maximum(np.abs(lam).max(-1), floor)
        stretch = np.maximum(1.0, size_b * (np.abs(v) ** 2).sum(-2).max(-1))
        spacing = _scaled(np.full(len(a), quantum), q - p)
        value_eps = np.maximum(eps, np.where(norm > 0, spacing * size_b / norm, 0.0))
        apart = left @ v - right @ (v * lam[:, None, :])
        skew = v.conj().swapaxes(-1, -2) @ (right @ v) - np.eye(m)
        if full:
            sizes = _norm(apart, (-1, -2)), _norm(skew, (-1, -2))
        else:
            probe = (x[0] + 1j * x[1] if a.dtype.kind == "c" else x[0])[:m]
            sizes = _norm(apart @ probe), _norm(skew @ probe)
        first = np.where(
            sizes[0] == 0, 0.0, sizes[0] / (norm * np.sqrt(stretch / size_b)) / (n * value_eps)
        )
        found = np.maximum(first, sizes[1] / stretch / (n * eps))
        out[:] = np.where(finite, np.where(np.isnan(found), np.inf, found), np.nan)
