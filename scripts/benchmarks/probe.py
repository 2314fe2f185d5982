"""What the probe is worth: injected errors that it misses, honest matrices that it alarms at."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import numpy as np

from benchmarks.timing import DTYPES, THREADS, describe_machine, hermitian, make_table, publish

ERRORS, HONEST = 10**6, 10**7
LARGE = 500.0
"""An injected error counts from this many units of the full measure on."""
# n and its share of the errors, and of the honest matrices: small ones are quick, and users' most
SHARES = ((2, 0.2, 0.24), (3, 0.2, 0.36), (4, 0.16, 0.2), (8, 0.2, 0.14), (16, 0.15, 0.04),
          (24, 0.05, 0.01), (33, 0.03, 0.008), (64, 0.01, 0.002))  # fmt: skip
BATCH_BYTES = 4 * 2**20
Rng = np.random.Generator
Pairs = tuple[Any, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument("--fraction", type=float, default=1.0, help="of 10^6 errors, 10^7 honest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="leave docs/benchmarks.md as it is")


def run(options: argparse.Namespace) -> None:
    """Count, write the tables, and exit with 1 if anything was missed or alarmed at."""
    begun = time.perf_counter()
    errors = count_missed(int(ERRORS * options.fraction), options.seed)
    honest = count_alarms(int(HONEST * options.fraction), options.seed)
    tried, missed = (sum(row[i] for row in errors.values()) for i in (0, 1))
    matrices, alarms = (sum(row[i] for row in honest.values()) for i in (0, 1))
    first = [[name, f"{row[0]:,}", row[1], f"{row[2]:.0f}"] for name, row in errors.items()]
    second = [[name, f"{row[0]:,}", row[1], f"{row[2]:.1f}"] for name, row in honest.items()]
    text = "\n\n".join([
        f"{describe_machine()}; seed {options.seed}, {time.perf_counter() - begun:.0f} s.",
        f"{tried:,} injected errors of {LARGE:.0f} units or more by the full measure; "
        f"**{missed} missed** by the probe.",
        make_table(["error", "injected", "missed", "smallest residual by the probe"], first),
        f"{matrices:,} honest matrices, values and vectors by `kernels.eigh`; **{alarms} alarms**.",
        make_table(["family", "matrices", "alarms", "largest residual"], second),
    ])  # fmt: skip
    publish("probe", text, not options.dry and options.fraction >= 1)
    raise SystemExit(1 if missed or alarms else 0)


def count_missed(wanted: int, seed: int) -> dict[str, list[Any]]:
    """Error -> [injected, missed, smallest probe], over sizes and dtypes, until enough count."""
    import kernels

    found: dict[str, list[Any]] = {name: [0, 0, np.inf] for name in INJECTIONS}
    rng = np.random.default_rng([seed, 1])
    for n, share, _ in SHARES:
        for dtype in DTYPES:
            for name, spoil in INJECTIONS.items():
                goal = ceil(wanted * share / len(DTYPES) / len(INJECTIONS))
                for a, values, vectors in draw_batches(rng, n, dtype, goal):
                    w, v = spoil(rng, a, values, vectors)
                    size = kernels.verify(a, w, v, mode="full")
                    probe = kernels.verify(a, w, v)
                    large = size >= LARGE  # NaN is no answer: the status says so, not the residual
                    row, seen = found[name], probe[large][:goal]
                    row[0] += len(seen)
                    row[1] += int((seen <= kernels.THRESHOLD).sum())
                    row[2] = min(row[2], float(seen.min(initial=np.inf)))
                    goal -= len(seen)
                    if goal <= 0:
                        break
        print(f"n = {n}: {sum(r[0] for r in found.values()):,} errors", file=sys.stderr)
    return found


def draw_batches(rng: Rng, n: int, dtype: str, goal: int) -> Iterator[tuple[Any, Any, Any]]:
    """Stacks of random matrices with honest pairs, as many as anyone asks for."""
    import kernels

    size = max(2, min(BATCH_BYTES // (16 * n * n), 2 * goal + 8))
    while True:
        a = hermitian(rng, size, n, dtype)
        found = kernels.eigh(a, threads=THREADS)
        yield a, found.values, found.vectors


def pick(rng: Rng, values: Any) -> tuple[Any, Any, Any, Any]:
    """For each matrix: itself, a row, a column, and an amount from 100 n eps to 1, of any sign."""
    count, n = values.shape
    eps = float(np.finfo(values.dtype).eps)
    amount = 10.0 ** rng.uniform(np.log10(100 * n * eps), 0, count) * rng.choice([-1, 1], count)
    return np.arange(count), rng.integers(0, n, count), rng.integers(0, n, count), amount


def spoil_value(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """One eigenvalue off, relative to the largest entry."""
    at, _, k, amount = pick(rng, values)
    values[at, k] += amount * np.abs(a).max((-1, -2))
    return values, vectors


def spoil_component(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """One component of one vector off."""
    at, row, k, amount = pick(rng, values)
    vectors[at, row, k] += amount
    return values, vectors


def swap_vectors(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """Two vectors change places."""
    at, _, k, _ = pick(rng, values)
    n = values.shape[1]
    other = (k + rng.integers(1, n, len(at))) % n
    vectors[at, :, k], vectors[at, :, other] = vectors[at, :, other], vectors[at, :, k]
    return values, vectors


def scale_vector(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """One vector longer or shorter."""
    at, _, k, amount = pick(rng, values)
    vectors[at, :, k] *= (1 + amount)[:, None]
    return values, vectors


def clear_vector(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """One vector zero."""
    at, _, k, _ = pick(rng, values)
    vectors[at, :, k] = 0
    return values, vectors


def take_others(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """The vectors of the matrix before."""
    return values, np.roll(vectors, 1, 0)


def leave_diagonal(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """Not solved at all: the diagonal, in order, with unit vectors, as one GPU solver did."""
    count, n = values.shape
    diagonal = np.diagonal(a, axis1=-2, axis2=-1).real
    order = diagonal.argsort(-1)
    unit = np.zeros_like(vectors)
    unit[np.arange(count)[:, None], order, np.arange(n)] = 1
    return np.take_along_axis(diagonal, order, -1), unit


def flip_bit(rng: Rng, a: Any, values: Any, vectors: Any) -> Pairs:
    """One bit of one number, in a value for every third matrix, else in a vector."""
    count, n = values.shape
    bits = 8 * values.dtype.itemsize
    word = np.dtype(f"u{values.dtype.itemsize}")
    at, row, k, _ = pick(rng, values)
    mask = np.left_shift(np.ones(count, word), rng.integers(0, bits, count).astype(word))
    where = at % 3 == 0
    plain = values.view(word)
    plain[at[where], k[where]] ^= mask[where]
    parts = vectors.view(word).reshape(count, n, n, -1)
    part = rng.integers(0, parts.shape[-1], count)
    parts[at[~where], row[~where], k[~where], part[~where]] ^= mask[~where]
    return values, vectors


INJECTIONS: dict[str, Callable[[Rng, Any, Any, Any], Pairs]] = {
    "a value off": spoil_value,
    "a component off": spoil_component,
    "two vectors swapped": swap_vectors,
    "a vector scaled": scale_vector,
    "a vector zeroed": clear_vector,
    "another matrix's vectors": take_others,
    "the unsolved diagonal": leave_diagonal,
    "a flipped bit": flip_bit,
}


def count_alarms(wanted: int, seed: int) -> dict[str, list[Any]]:
    """Family -> [matrices, alarms, largest residual], over sizes and dtypes."""
    import kernels

    found: dict[str, list[Any]] = {name: [0, 0, 0.0] for name in FAMILIES}
    rng = np.random.default_rng([seed, 2])
    for n, _, share in SHARES:
        for dtype in DTYPES:
            for name, family in FAMILIES.items():
                left = ceil(wanted * share / len(DTYPES) / len(FAMILIES))
                while left > 0:
                    count = min(left, max(1, BATCH_BYTES // (16 * n * n)))
                    a = family(rng, count, n, dtype)
                    answer = kernels.eigh(a, repair=False, threads=THREADS)
                    row = found[name]
                    row[0] += count
                    row[1] += int((answer.status != kernels.Status.ok).sum())
                    row[2] = max(row[2], float(answer.residual.max()))
                    left -= count
        print(f"n = {n}: {sum(r[0] for r in found.values()):,} matrices", file=sys.stderr)
    return found


def from_spectrum(rng: Rng, spectra: Any, dtype: str) -> Any:
    """Matrices of given spectra, with the vectors of a random matrix."""
    count, n = spectra.shape
    q = np.linalg.qr(hermitian(rng, min(count, 256), n, dtype).astype(_wide(dtype)))[0]
    q = q[rng.integers(0, len(q), count)]
    a = (q * spectra[:, None, :]) @ q.conj().swapaxes(-1, -2)
    return ((a + a.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def _wide(dtype: str) -> str:
    return "complex128" if dtype.startswith("complex") else "float64"


def draw_clustered(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return from_spectrum(rng, 1 + 1e-9 * rng.standard_normal((count, n)), dtype)


def draw_repeated(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return from_spectrum(rng, np.tile((np.arange(n) % 3 == 0) * 1.0, (count, 1)), dtype)


def draw_near_degenerate(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return from_spectrum(
        rng, np.tile(np.arange(n) // 2 + 1e-7 * (np.arange(n) % 2), (count, 1)), dtype
    )


def draw_geometric(rng: Rng, count: int, n: int, dtype: str) -> Any:
    sign = rng.choice([-1.0, 1.0], (count, n))
    return from_spectrum(rng, sign * 10.0 ** -rng.uniform(0, 15, (count, n)), dtype)


def draw_graded(rng: Rng, count: int, n: int, dtype: str) -> Any:
    d = 10.0 ** (-np.arange(n) / 4)
    a = np.eye(n) + 0.3 * hermitian(rng, count, n, _wide(dtype))
    return (d[:, None] * a * d).astype(dtype)


def draw_glued(rng: Rng, count: int, n: int, dtype: str) -> Any:
    """Wilkinson blocks of 5 with weak links, scaled at random."""
    link = np.where(np.arange(n - 1) % 5 == 4, 1e-9, 1.0)
    a = np.diag(np.abs(np.arange(n) % 5 - 2.0)) + np.diag(link, -1) + np.diag(link, 1)
    return (a * rng.uniform(0.5, 2, (count, 1, 1))).astype(dtype)


def draw_diagonal(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return (np.eye(n) * rng.standard_normal((count, 1, n))).astype(dtype)


def draw_rank_one(rng: Rng, count: int, n: int, dtype: str) -> Any:
    v = hermitian(rng, count, n, _wide(dtype))[:, :, :1]
    return (v @ v.conj().swapaxes(-1, -2)).astype(dtype)


def draw_isotropic(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return (np.eye(n) + 1e-12 * hermitian(rng, count, n, _wide(dtype))).astype(dtype)


def draw_zero(rng: Rng, count: int, n: int, dtype: str) -> Any:
    return np.zeros((count, n, n), dtype)


def draw_scaled(rng: Rng, count: int, n: int, dtype: str) -> Any:
    """Random matrices from the smallest to the largest numbers of the dtype, subnormal ones too."""
    single = dtype in ("float32", "complex64")
    lowest, highest = (-140, 120) if single else (-1050, 1015)
    power = rng.integers(lowest, highest, (count, 1, 1))
    a = hermitian(rng, count, n, _wide(dtype))
    half = power // 2
    return (a * np.ldexp(1.0, half) * np.ldexp(1.0, power - half)).astype(dtype)


FAMILIES: dict[str, Callable[[Rng, int, int, str], Any]] = {
    "random": hermitian,
    "clustered": draw_clustered,
    "repeated": draw_repeated,
    "near degenerate": draw_near_degenerate,
    "geometric": draw_geometric,
    "graded": draw_graded,
    "glued Wilkinson": draw_glued,
    "diagonal": draw_diagonal,
    "rank one": draw_rank_one,
    "isotropic": draw_isotropic,
    "zero": draw_zero,
    "any scale": draw_scaled,
}
