"""Merging: any order, any grouping, the same bits, signed zeros and ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from spectrum_cases import cut

from pipeline.plan import Block
from pipeline.stages.spectrum.survey import Survey, empty_survey, flatten, survey
from pipeline.stages.spectrum.weights import choose_exponent, slice_weights, weigh

NUMBERS = st.sampled_from([-0.0, 0.0, 1.0, -1.0, np.nan, 2.5, 1e300])
VALUES = hnp.arrays(np.float64, (9, 2), elements=NUMBERS)


def survey_parts(values: Any) -> list[Survey]:
    """The surveys of three neighbouring thirds."""
    ones = weigh(None, (3,), choose_exponent(9, 2, 1.0))
    return [survey(values[b.slices], np.zeros(3, np.uint8), ones, b, (9,)) for b in cut((9,), 3)]


def freeze(found: Survey) -> tuple[Any, ...]:
    """All bits of a survey."""
    lowest = (found.bottom, found.top, found.gap)
    arrays = [array.tobytes() for each in lowest for array in (each.value, each.where)]
    return *arrays, found.used, found.weight


@given(values=VALUES)
def test_merge_is_associative_and_commutative(values: Any) -> None:
    a, b, c = survey_parts(values)
    assert freeze(a.merge(b)) == freeze(b.merge(a))
    assert freeze(a.merge(b).merge(c)) == freeze(a.merge(b.merge(c))) == freeze(c.merge(a).merge(b))
    assert freeze(a.merge(empty_survey(2))) == freeze(a)


@given(values=VALUES)
def test_survey_finds_extremes(values: Any) -> None:
    a, b, c = survey_parts(values)
    found = a.merge(b).merge(c)
    kept = np.flatnonzero(np.isfinite(values).all(axis=1))
    assert found.used == len(kept)
    assert found.weight == len(kept) * 2 ** choose_exponent(9, 2, 1.0)
    if len(kept):
        np.testing.assert_array_equal(found.bottom.value, values[kept].min(axis=0))
        np.testing.assert_array_equal(-found.top.value, values[kept].max(axis=0))
        np.testing.assert_array_equal(found.bottom.where, kept[values[kept].argmin(axis=0)])
        np.testing.assert_array_equal(found.top.where, kept[values[kept].argmax(axis=0)])
        assert found.gap.where == kept[np.diff(values[kept]).argmin()]
    else:
        assert freeze(found) == freeze(empty_survey(2))


def test_flatten() -> None:
    block = Block(0, (1, 2, 0), (3, 4, 5))
    index = np.arange(4 * 6 * 5).reshape(4, 6, 5)
    np.testing.assert_array_equal(
        flatten(np.arange(block.size), block, index.shape), index[block.slices].ravel()
    )


@pytest.mark.parametrize("dims", [("k1",), ("k2",), ("k2", "k1"), ()])
def test_weights_on_some_dimensions(dims: tuple[str, ...]) -> None:
    sizes = {"k1": 4, "k2": 6}
    shape = tuple(sizes[d] for d in dims)
    weights = xr.DataArray(np.arange(np.prod(shape, dtype=int)).reshape(shape) * 1.0, dims=dims)
    full = weights.broadcast_like(xr.DataArray(np.zeros((4, 6)), dims=("k1", "k2")))
    for block in cut((4, 6), 3, 4):
        np.testing.assert_array_equal(
            slice_weights(weights, ("k1", "k2"), block),
            full.transpose("k1", "k2").values[block.slices],
        )
