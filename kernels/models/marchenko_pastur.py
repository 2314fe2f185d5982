"""Noise in covariance spectra: the Marchenko-Pastur bulk, its edges, and what stands out of it.

The eigenvalues of the covariance of T samples of noise of variance s^2 in n channels fill
[s^2 (1 - sqrt(n/T))^2, s^2 (1 + sqrt(n/T))^2] (V. A. Marchenko, L. A. Pastur, 1967). With k of
them taken for signal, the rest has the trace s^2 (n - k)(T - k)/T, and the largest of it stays
below the Tracy-Widom edge; the number of signals is the first k for which that holds (S. Kritchman
and B. Nadler, IEEE Trans. Signal Process. 57 (2009) 3930, with the centre and width of I. M.
Johnstone, Ann. Statist. 29 (2001) 295). Where T is not known, because samples are correlated, it is
taken from the second moment of the bulk, s^4 (1 + n/T).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from kernels.fits.rows import as_tensor

Tensor = torch.Tensor
QUANTILES = {0.1: (0.4501, -0.5969), 0.05: (0.9793, -0.2325), 0.01: (2.0234, 0.4776)}
"""Of the Tracy-Widom laws for real and complex data, by the chance of a false signal."""


class Noise(NamedTuple):
    """The bulk of a spectrum; of the kind of the input.

    Attributes
    ----------
    variance : (...) of the noise, in the unit of the eigenvalues; NaN where there is none
    rank : (...) int64, number of signals above the bulk; -1 where there is none
    lower, upper : (...) edges of the bulk
    ratio : (...) channels over samples in the bulk, given or fitted
    """

    variance: Any
    rank: Any
    lower: Any
    upper: Any
    ratio: Any


def marchenko_pastur(
    values: Any, samples: float | None = None, *, chance: float = 0.01, complex: bool = False
) -> Noise:
    """Fit the noise of covariance spectra.

    Parameters
    ----------
    values : (..., n)
        Eigenvalues of sample covariances, ascending, sums divided by the number of samples.
    samples : float
        How many independent samples; None: fitted to the bulk.
    chance : 0.1, 0.05 or 0.01
        Of taking noise for a signal.
    complex : bool
        Whether the data were complex.

    Raises
    ------
    ValueError
        For arguments that make no sense.
    """
    spectrum = as_tensor(values, "marchenko_pastur: values")
    if spectrum.ndim == 0 or spectrum.shape[-1] < 2 or spectrum.is_complex():
        raise ValueError(
            f"marchenko_pastur: values: got shape {tuple(spectrum.shape)} and dtype "
            f"{spectrum.dtype}, expected (..., n) real eigenvalues, n >= 2"
        )
    if samples is not None and not samples > 1:
        raise ValueError(f"marchenko_pastur: samples: got {samples!r}, expected a number > 1")
    if chance not in QUANTILES:
        raise ValueError(f"marchenko_pastur: chance: got {chance!r}, expected 0.1, 0.05 or 0.01")
    rows = spectrum.reshape(-1, spectrum.shape[-1]).to(torch.float64).mT.contiguous()
    found = _search(rows, samples, QUANTILES[chance][complex], complex)
    numpy = not isinstance(values, torch.Tensor)
    shaped = (x.reshape(spectrum.shape[:-1]) for x in found)
    return Noise(*((x.numpy() if numpy else x) for x in shaped))


def _search(rows: Tensor, samples: float | None, quantile: float, is_complex: bool) -> Noise:
    """For (n, batch): try k = 0, 1, 2, ... signals until the rest is a bulk."""
    n, count = rows.shape
    whole = rows.isfinite().all(0)
    rows = torch.where(whole, rows, 1).clamp(min=0)
    total, square = rows.cumsum(0), (rows * rows).cumsum(0)
    out = [torch.full((count,), torch.nan, dtype=torch.float64) for _ in range(4)]
    rank = torch.full((count,), -1)
    most = n - 1 if samples is None else min(n, math.floor(samples)) - 1
    for k in range(most):
        open_ = whole & (rank < 0)
        if not bool(open_.any()):
            break
        left = n - k
        first, second = total[left - 1] / left, square[left - 1] / left
        if samples is None:
            ratio = (second / (first * first) - 1).clamp(min=1e-12)
            t = left / ratio
            variance = first
        else:
            t = torch.full_like(first, samples - k)
            ratio = left / t
            variance = total[left - 1] * samples / (left * t)
        edge = variance * _edge(left, t, quantile, is_complex)
        edge = edge if samples is None else edge * (t / samples)
        fits = open_ & (rows[left - 1] <= edge)
        rank = torch.where(fits, k, rank)
        root = ratio.sqrt()
        values = variance, variance * (1 - root) ** 2, variance * (1 + root) ** 2, ratio
        out = [torch.where(fits, v, o) for v, o in zip(values, out, strict=True)]
    return Noise(out[0], rank, *out[1:])


def _edge(p: int, t: Tensor, quantile: float, is_complex: bool) -> Tensor:
    """Where the largest of p eigenvalues of t samples of unit noise stays below."""
    a = (t - (0 if is_complex else 1)).clamp(min=1).sqrt()
    b = math.sqrt(p)
    width = (a + b) * (1 / a + 1 / b) ** (1 / 3)
    return ((a + b) ** 2 + quantile * width) / t
