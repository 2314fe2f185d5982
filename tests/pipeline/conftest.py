"""Stores to run on, and places for outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from run_cases import draw_hermitian, write_stack


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """A store of 12 x 10 complex matrices of 6 x 6, in chunks of 3 x 5."""
    matrices = draw_hermitian(np.random.default_rng(1), 12, 10, 6)
    return write_stack(tmp_path / "in.zarr", matrices, (3, 5))


@pytest.fixture
def outputs(tmp_path: Path) -> Callable[[str], Path]:
    """Name an output below the test's folder."""
    return lambda name: tmp_path / f"{name}.zarr"
