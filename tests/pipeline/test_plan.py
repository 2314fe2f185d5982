"""Blocks tile a stack, own whole chunks, and fit the memory; what cannot fit is refused."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Misuse
from pipeline.plan import (
    FLOOR_BYTES,
    MIB,
    PROCESS_BYTES,
    Block,
    Stack,
    cut,
    enclose,
    group_blocks,
    plan_blocks,
)

GIB = 1 << 30


def make_stack(shape: tuple[int, ...], grain: tuple[int, ...], matrix_bytes: int = 1600) -> Stack:
    chunks = tuple(
        tuple(min(g, s - i) for i in range(0, s, g)) for s, g in zip(shape, grain, strict=True)
    )
    size = prod(min(g, s) for g, s in zip(grain, shape, strict=True)) * matrix_bytes
    return Stack(shape, chunks, size, matrix_bytes, matrix_bytes // 10 + 5)


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    shape = tuple(draw(st.lists(st.integers(0, 30), min_size=0, max_size=3)))
    grain = tuple(draw(st.integers(1, max(1, s))) for s in shape)
    return make_stack(shape, grain, draw(st.sampled_from([8, 72, 1600, 32768])))


@given(stacks(), st.sampled_from([None, 100, 10_000, 1_000_000]), st.integers(1, 5))
def test_blocks_tile_the_stack(stack: Stack, block_bytes: int | None, workers: int) -> None:
    plan = plan_blocks(stack, workers=workers, memory=64 * GIB, block_bytes=block_bytes)
    seen = np.zeros(stack.shape, int)
    blocks = plan.blocks()
    for block in blocks:
        seen[block.slices] += 1
    assert (seen == 1).all()
    assert [b.index for b in blocks] == list(range(plan.count))


@given(stacks(), st.sampled_from([None, 100, 10_000, 1_000_000]))
def test_a_chunk_is_read_by_one_task(stack: Stack, block_bytes: int | None) -> None:
    """No stored chunk is needed by two tasks, so none is decoded twice."""
    plan = plan_blocks(stack, workers=2, memory=64 * GIB, block_bytes=block_bytes)
    readers: dict[tuple[int, ...], int] = {}
    for task, group in enumerate(group_blocks(plan.blocks(), plan.read_shape)):
        assert sum(b.size for b in group) == enclose(group).size
        for block in group:
            spans = (
                {np.searchsorted(np.cumsum(c), i, side="right") for i in range(a, b)}
                for a, b, c in zip(block.start, block.stop, stack.chunks, strict=True)
            )
            for chunk in product(*spans):
                assert readers.setdefault(chunk, task) == task


def test_small_stacks_are_not_cut_into_many_files() -> None:
    """The demo's 2.7 MB would be eight blocks for two workers; it stays one."""
    plan = plan_blocks(make_stack((12, 12, 12), (1, 12, 12)), workers=2, memory=GIB)
    assert plan.count == 1


def test_large_stacks_keep_the_workers_busy() -> None:
    stack = make_stack((100_000,), (100,))
    plan = plan_blocks(stack, workers=8, memory=4 * GIB)
    assert plan.count >= 4 * 8
    assert plan.block_shape[0] * stack.matrix_bytes >= FLOOR_BYTES


def test_single_matrix_is_one_block() -> None:
    assert plan_blocks(make_stack((), ()), workers=2, memory=GIB).blocks() == [Block(0, (), ())]


def test_empty_stack_has_no_blocks() -> None:
    assert plan_blocks(make_stack((0, 4), (1, 2)), workers=2, memory=GIB).blocks() == []


def test_a_large_chunk_is_split_and_read_once() -> None:
    stack = make_stack((4096,), (4096,), matrix_bytes=72)
    plan = plan_blocks(stack, workers=2, memory=GIB, block_bytes=72 * 256)
    assert (plan.block_shape, plan.read_shape, plan.count) == ((256,), (4096,), 16)
    assert len(group_blocks(plan.blocks(), plan.read_shape)) == 1


def test_a_prime_chunk_stays_whole() -> None:
    plan = plan_blocks(make_stack((1009,), (1009,)), workers=2, memory=GIB, block_bytes=1600 * 100)
    assert plan.block_shape == (1009,)


def test_less_memory_gives_smaller_blocks() -> None:
    stack = make_stack((1 << 20,), (16,))
    wide = plan_blocks(stack, workers=1, memory=8 * GIB)
    tight = plan_blocks(stack, workers=1, memory=PROCESS_BYTES + 40 * MIB)
    assert tight.block_shape < wide.block_shape
    assert tight.memory <= PROCESS_BYTES + 40 * MIB


def test_what_cannot_fit_is_refused_with_a_remedy() -> None:
    stack = make_stack((4096,), (4096,), matrix_bytes=1 << 20)
    with pytest.raises(Misuse, match=r"rechunk the input to about \d+ matrices a chunk") as caught:
        plan_blocks(stack, workers=1, memory=2 * GIB)
    assert "cluster.memory=" in str(caught.value)
    with pytest.raises(Misuse, match=r"smaller plan\.block_bytes"):
        plan_blocks(
            make_stack((4096,), (1,), 1 << 20), workers=1, memory=2 * GIB, block_bytes=4 * GIB
        )


def test_blocks_are_hashable_and_name_their_place_in_a_group() -> None:
    first, second = list(cut((6,), (3,)))
    assert len({first, second, Block(0, (0,), (3,))}) == 2
    assert second.within(enclose([first, second])) == (slice(3, 6),)
