"""What the tests of the sources share: configs, whole reads, small stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.plan import Block
from pipeline.schema.source import SourceConfig
from pipeline.sources import Source, open_source


def open_at(path: str | Path, **keys: Any) -> Source:
    """Open a source as the config would."""
    return open_source(SourceConfig(path=str(path), **keys))


def whole(source: Source) -> Block:
    """The block that is the whole stack."""
    return Block(0, (0,) * len(source.shape), source.shape)


def read_all(source: Source) -> NDArray[Any]:
    """Every matrix of the source."""
    values, missing = source.read(whole(source))
    assert values.shape == (*source.shape, source.n, source.n)
    assert values.dtype == source.dtype and values.dtype.isnative
    assert missing.shape == source.shape and not missing.any()
    assert tuple(map(sum, source.chunks)) == source.shape
    return values


def refuse(path: str | Path, *words: str, **keys: Any) -> str:
    """Check that opening is refused with a message that contains all of `words`."""
    with pytest.raises(Misuse) as caught:
        open_at(path, **keys)
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    return message


def make_stack(*shape: int, dtype: Any = "f8", seed: int = 0) -> NDArray[Any]:
    """Numbers without zeros, so that no chunk holds only the fill value."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.integers(1, 100, shape)
    return values.astype(dtype)


def write_array(path: Path, values: NDArray[Any], **keys: Any) -> zarr.Array[Any]:
    """Write one array with zarr-python; keys go to `zarr.create_array`."""
    array = zarr.create_array(str(path), shape=values.shape, dtype=values.dtype, **keys)
    array[...] = values
    return array
