"""What the tests of computed sources share."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from source_cases import read_all

from pipeline.errors import Misuse
from pipeline.plan import Block
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source


def solve(matrices: NDArray[Any]) -> NDArray[Any]:
    """Eigenvalues by numpy."""
    return np.linalg.eigvalsh(matrices)


def refuse(path: str | Path, *words: str, **keys: Any) -> None:
    """Check that a config or its source is refused with a message that contains all of `words`."""
    with pytest.raises(Misuse) as caught:
        open_source(SourceConfig(path=str(path), **keys))
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


def check_bits(source: Any) -> None:
    """Blocks of any shape, chosen matrices and a pickled source give the same bits."""
    whole = read_all(source)
    other = pickle.loads(pickle.dumps(source))
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = [np.sort(rng.choice(size + 1, 2, replace=False)).tolist() for size in source.shape]
        block = Block(0, tuple(a for a, _ in ends), tuple(b for _, b in ends))
        values, missing = other.read(block)
        assert not missing.any() and missing.shape == block.shape
        np.testing.assert_array_equal(values, whole[block.slices])
        todo = rng.random(block.shape) < 0.3
        values, _ = source.read(block, todo)
        np.testing.assert_array_equal(values[todo], whole[block.slices][todo])
