"""The phase of eigenvectors."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kernels


@st.composite
def columns(draw: Any) -> Any:
    dtype = np.dtype(draw(st.sampled_from(cases.DTYPES)))
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    width = 32 if dtype.char in "fF" else 64
    grid = st.sampled_from([0.0, -0.0, 0.5, -0.5, 0.25])
    parts = st.one_of(grid, st.floats(-1, 1, width=width), st.floats(width=width))
    real = [hnp.arrays(np.finfo(dtype).dtype, (n, m), elements=parts) for _ in range(2)]
    re, im = draw(real[0]), draw(real[1])
    if dtype.kind != "c":
        return re
    v = re.astype(dtype)
    v.imag = im
    return v


@given(columns())
@settings(max_examples=400, deadline=None)
def test_gauge(v: Any) -> None:
    fixed = kernels.fix_gauge(v)
    assert fixed.dtype == v.dtype and fixed.shape == v.shape
    assert kernels.fix_gauge(fixed).tobytes() == fixed.tobytes()
    eps = np.finfo(v.dtype).eps
    for before, after in zip(v.T, fixed.T, strict=True):
        with np.errstate(over="ignore"):
            size = np.abs(before.astype(np.result_type(v.dtype, np.float64)))
        peak = size.max(initial=0)
        if not np.isfinite(before).all() or peak == 0 or not np.isfinite(peak):
            assert before.tobytes() == after.tobytes()
            continue
        if peak < 1e3 * np.finfo(v.dtype).tiny:
            continue  # too small for unit moduli
        tied = size >= peak * (1 - np.sqrt(eps) - 20 * eps)
        assert any(x.real > 0 and x.imag == 0 for x in after[tied])
        assert np.abs(np.abs(after) - size).max() <= 8 * eps * peak


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_phase_of_the_input_does_not_matter(dtype: str) -> None:
    rng = np.random.default_rng(2)
    c = dtype.startswith("c")
    v = np.linalg.qr(cases.gaussian(rng, (200, 6, 6), c))[0].astype(dtype)
    turn = np.exp(2j * np.pi * rng.random((200, 1, 6))) if c else rng.choice([-1, 1], (200, 1, 6))
    apart = kernels.fix_gauge(v) - kernels.fix_gauge((v * turn).astype(dtype))
    assert np.abs(apart).max() < 10 * np.finfo(dtype).eps


def test_rounding_does_not_choose_between_ties() -> None:
    v = np.array([[-0.5], [0.5], [-0.5], [0.5]])
    for noise in np.random.default_rng(0).standard_normal((50, 4, 1)) * 1e-15:
        fixed = kernels.fix_gauge(v + noise)
        assert fixed[0, 0] > 0 and fixed[1, 0] < 0


def test_kinds_and_misuse() -> None:
    v = np.linalg.qr(np.random.default_rng(1).standard_normal((2, 3, 4, 4)) + 0j)[0]
    given = v.copy()
    fixed = kernels.fix_gauge(torch.from_numpy(v))
    assert isinstance(fixed, torch.Tensor)
    assert fixed.numpy().tobytes() == kernels.fix_gauge(v, gauge="phase").tobytes()
    assert (v == given).all()
    part = kernels.fix_gauge(v[..., 1:3])
    assert part.tobytes() == np.ascontiguousarray(fixed.numpy()[..., 1:3]).tobytes()
    with pytest.raises(ValueError, match="gauge: got 'parallel'"):
        kernels.fix_gauge(v, gauge="parallel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        kernels.fix_gauge(np.zeros((2, 2), int))
