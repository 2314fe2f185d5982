"""The one table of matrix families that every test of the kernels draws from.

A family makes a stack of `COUNT` Hermitian matrices of size n with Frobenius norm at most 1, in
double; `build` rounds it to a dtype and multiplies by a scale.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

COUNT = 3
SIZES = (1, 2, 3, 4, 5, 8, 16, 33, 64)
DTYPES = ("float32", "float64", "complex64", "complex128")


def hermitian(a: Any) -> Any:
    return (a + a.conj().swapaxes(-1, -2)) / 2


def gaussian(rng: Any, shape: tuple[int, ...], is_complex: bool) -> Any:
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if is_complex else a


def rotated(rng: Any, spectra: Any, is_complex: bool) -> Any:
    n = spectra.shape[-1]
    q = np.linalg.qr(gaussian(rng, (*spectra.shape, n), is_complex))[0]
    return hermitian((q * spectra[..., None, :]) @ q.conj().swapaxes(-1, -2))


def random(rng: Any, n: int, c: bool) -> Any:
    return hermitian(gaussian(rng, (COUNT, n, n), c))


def clustered(rng: Any, n: int, c: bool) -> Any:
    return rotated(rng, 1 + 1e-9 * rng.standard_normal((COUNT, n)), c)


def repeated(rng: Any, n: int, c: bool) -> Any:
    return rotated(rng, np.tile((np.arange(n) % 3 == 0) * 1.0, (COUNT, 1)), c)


def glued(rng: Any, n: int, c: bool) -> Any:
    """Wilkinson blocks of 5 with weak links, the links with a phase where complex."""
    diagonal = np.abs(np.arange(n) % 5 - 2.0)
    link = np.where(np.arange(n - 1) % 5 == 4, 1e-9, 1.0) * (np.exp(0.3j) if c else 1)
    a = np.diag(diagonal) + np.diag(link, -1) + np.diag(np.conj(link), 1)
    return np.tile(a, (COUNT, 1, 1))


def graded(rng: Any, n: int, c: bool) -> Any:
    d = 10.0 ** (-np.arange(n) / 4)
    return d[:, None] * (np.eye(n) + 0.3 * random(rng, n, c)) * d


def zero(rng: Any, n: int, c: bool) -> Any:
    return np.zeros((COUNT, n, n), complex if c else float)


def diagonal(rng: Any, n: int, c: bool) -> Any:
    return np.eye(n) * rng.standard_normal((COUNT, 1, n)) + (0j if c else 0)


def rank_one(rng: Any, n: int, c: bool) -> Any:
    v = gaussian(rng, (COUNT, n, 1), c)
    return v @ v.conj().swapaxes(-1, -2)


def isotropic(rng: Any, n: int, c: bool) -> Any:
    return np.eye(n) + 1e-12 * random(rng, n, c)


def near_degenerate(rng: Any, n: int, c: bool) -> Any:
    return rotated(rng, np.tile(np.arange(n) // 2 + 1e-7 * (np.arange(n) % 2), (COUNT, 1)), c)


FAMILIES: tuple[Callable[[Any, int, bool], Any], ...] = (
    random, clustered, repeated, glued, graded, zero, diagonal, rank_one, isotropic,
    near_degenerate,
)  # fmt: skip
SCALES = {
    "float64": (1e-310, 1e-300, 1e-150, 1e150, 1e300, 1e307),
    "float32": (1e-42, 1e-37, 1e-20, 1e20, 1e37),
}


class Case(NamedTuple):
    family: Callable[[Any, int, bool], Any]
    n: int
    dtype: str
    scale: float = 1.0

    def __str__(self) -> str:
        return f"{self.family.__name__}-{self.n}-{self.dtype}-{self.scale:g}"

    @property
    def eps(self) -> float:
        return float(np.finfo(self.dtype).eps)

    @property
    def real(self) -> str:
        return np.finfo(self.dtype).dtype.name

    def build(self) -> Any:
        """Exactly Hermitian (COUNT, n, n)."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        a = self.family(rng, self.n, self.dtype.startswith("c"))
        norm = np.sqrt((np.abs(a) ** 2).sum((-1, -2), keepdims=True))
        a = a / np.where(norm > 0, norm, 1)
        half = 2.0 ** (np.frexp(self.scale)[1] // 2)  # 1e-310 itself is no normal number
        a = (a * half * (self.scale / half)).astype(self.dtype)
        lower = np.tril(a, -1)
        whole = lower + lower.conj().swapaxes(-1, -2)
        index = np.arange(self.n)
        whole[:, index, index] = a.real[:, index, index]
        return whole


CASES = [Case(f, n, d) for f in FAMILIES for n in SIZES for d in DTYPES] + [
    Case(random, n, d, s)
    for n in (1, 2, 3, 8, 33)
    for d in DTYPES
    for s in SCALES[np.finfo(d).dtype.name]
]


def normalised(a: Any) -> tuple[Any, Any]:
    """(a 2^-e, e) with the largest part near 1, exactly, so that references keep to their range."""
    parts = np.abs(np.stack([a.real, a.imag]))
    e = np.frexp(parts.max(axis=(0, -1, -2)))[1]
    wide = a.astype(np.result_type(a.dtype, np.float64))
    first = -e // 2
    for part in (first, -e - first):
        wide = wide * np.ldexp(1.0, part)[..., None, None]
    return wide, e


def scaled(x: Any, e: Any) -> Any:
    """x 2^-e along the first axis, as `normalised` does."""
    first = -e // 2
    for part in (first, -e - first):
        x = x * np.ldexp(1.0, part).reshape(-1, *(1,) * (x.ndim - 1))
    return x


def bits(eigen: Any) -> list[bytes]:
    return [np.ascontiguousarray(x).tobytes() for x in eigen if x is not None]
