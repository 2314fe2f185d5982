"""Matrix products in panels: one order of sums, in one thread.

BLAS cuts large products between its threads, and then the last bits depend on their number. Real
products of up to 2**18 multiplications OpenBLAS keeps in one thread (interface/gemm.c); complex
ones it does not, so they are made of real ones.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2**18
"""Multiplications of one product."""
PANEL = 64
"""Columns and terms of one product, and rows at least."""


def add_product(total: NDArray[Any], a: NDArray[Any], b: NDArray[Any], sign: int = 1) -> None:
    """Add `a @ b`, times the sign, to `total`; real arrays (…, m, k) and (…, k, n)."""
    height = MOST // (min(a.shape[-1], PANEL) * min(b.shape[-1], PANEL))
    for row, column in product(range(0, a.shape[-2], height), range(0, b.shape[-1], PANEL)):
        rows, columns = slice(row, row + height), slice(column, column + PANEL)
        part = total[..., rows, columns]
        for term in range(0, a.shape[-1], PANEL):
            terms = slice(term, term + PANEL)
            # copied: of views of one array numpy makes another routine (syrk)
            left = np.ascontiguousarray(a[..., rows, terms])
            found = left @ np.ascontiguousarray(b[..., terms, columns])
            if sign > 0:
                part += found
            else:
                part -= found


def multiply(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Compute `a @ b`, real or complex."""
    shape = (*a.shape[:-1], b.shape[-1])
    if a.dtype.kind != "c" and b.dtype.kind != "c":
        total = np.zeros(shape, np.result_type(a, b))
        add_product(total, a, b)
        return total
    whole = np.empty(shape, np.complex128)
    real, imag = np.zeros(shape), np.zeros(shape)
    add_product(real, a.real, b.real)
    add_product(imag, a.real, b.imag)
    add_product(real, a.imag, b.imag, -1)
    add_product(imag, a.imag, b.real)
    whole.real, whole.imag = real, imag
    return whole
