"""Blocks: the addresses into which a stack is cut, and the rules that cut it.

Pure: sizes, chunks and a byte budget in, addresses out. Nothing here opens a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import ceil, prod

from pipeline.callable import make_callable
from pipeline.errors import Misuse

MIB = 1 << 20
TARGET_BYTES = 64 * MIB
"""Input a block holds at most by default: large enough that per-block costs vanish."""
FLOOR_BYTES = 4 * MIB
"""Input below which a stack is not cut further to feed workers: small blocks are many files."""
BLOCKS_PER_WORKER = 4
"""Blocks wanted for each worker, so that the last ones to finish do not leave others idle."""
PROCESS_BYTES = 150 * MIB
"""Resident size of a worker with zarr and dask loaded and no data (measured)."""
TORCH_BYTES = 140 * MIB
"""What torch, whose LAPACK some drivers call, adds to it (measured)."""


@dataclass(frozen=True, order=True)
class Block:
    """An address: one hyper-rectangle of a stack's batch dimensions.

    Attributes
    ----------
    index : int
        Position in the run's block list.
    start, stop : tuple of int
        First and one-past-last position along every batch dimension. Both are
        empty for a single matrix without batch dimensions.
    """

    index: int
    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """One slice for each batch dimension."""
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent along each batch dimension."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        """Number of matrices."""
        return prod(self.shape)

    def within(self, hull: Block) -> tuple[slice, ...]:
        """Slices of this block relative to the start of a block that encloses it."""
        return tuple(
            slice(a - h, b - h) for a, b, h in zip(self.start, self.stop, hull.start, strict=True)
        )


@dataclass(frozen=True)
class Stack:
    """What the planner must know of a stack: extents, stored chunks, and bytes.

    Attributes
    ----------
    shape : tuple of int
        Batch shape.
    chunks : tuple of tuple of int
        Extents of the stored chunks along each batch dimension.
    chunk_bytes : int
        Decoded bytes of the largest stored chunk.
    matrix_bytes, result_bytes : int
        Bytes of one matrix as solved, and of everything stored for it.
    process_bytes : int
        Bytes that a worker takes without any data.
    in_flight : int
        Tasks that a worker has in flight: one computes, the others read or write.
    """

    shape: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    chunk_bytes: int
    matrix_bytes: int
    result_bytes: int
    process_bytes: int = PROCESS_BYTES
    in_flight: int = 2


@dataclass(frozen=True)
class Plan:
    """How a stack is cut: the block grid, and which blocks share a stored chunk.

    Attributes
    ----------
    shape, block_shape : tuple of int
        Batch shape, and the extents of every block but the ragged last ones.
    read_shape : tuple of int
        Extents read in one go: those of a block, or those of the stored chunk
        of which several blocks are parts.
    memory : int
        Bytes that one worker needs, the process itself included (estimate).
    """

    shape: tuple[int, ...]
    block_shape: tuple[int, ...]
    read_shape: tuple[int, ...]
    memory: int

    @property
    def count(self) -> int:
        """Number of blocks."""
        return prod(ceil(s / b) for s, b in zip(self.shape, self.block_shape, strict=True))

    def blocks(self) -> list[Block]:
        """Every block, in C order."""
        return list(cut(self.shape, self.block_shape))


def cut(shape: Sequence[int], extents: Sequence[int]) -> Iterator[Block]:
    """Cut `shape` into a regular grid of blocks of at most `extents`, in C order."""
    starts = product(*(range(0, s, b) for s, b in zip(shape, extents, strict=True)))
    for index, start in enumerate(starts):
        stop = (min(a + b, s) for a, b, s in zip(start, extents, shape, strict=True))
        yield Block(index, start, tuple(stop))


def group_blocks(blocks: Sequence[Block], read_shape: Sequence[int]) -> list[tuple[Block, ...]]:
    """Put blocks that are parts of one read together, so that it is decoded once.

    A group is what one task works through; most groups hold one block.
    """

    def cell(block: Block) -> tuple[int, ...]:
        return tuple(a // r for a, r in zip(block.start, read_shape, strict=True))

    ordered = sorted(blocks, key=lambda block: (cell(block), block.index))
    return [tuple(group) for _, group in groupby(ordered, key=cell)]


def enclose(group: Sequence[Block]) -> Block:
    """Return the smallest block that holds a whole group."""
    start = tuple(min(a) for a in zip(*(b.start for b in group), strict=True))
    stop = tuple(max(a) for a in zip(*(b.stop for b in group), strict=True))
    return Block(group[0].index, start, stop)


def plan_blocks(stack: Stack, *, workers: int, memory: int, block_bytes: int | None = None) -> Plan:
    """Choose the block grid of a stack.

    The rule: a block is a whole number of stored chunks along every dimension,
    grown from the last dimension on until it holds `block_bytes` of input
    (default: 64 MiB, less if that leaves a worker with fewer than 4 blocks, but
    not below 4 MiB). A stored chunk that holds more than that is read once and
    split into equal blocks. Blocks are the shards of the output, too: no two
    tasks ever write one file.

    Parameters
    ----------
    stack : Stack
        The stack to cut.
    workers : int
        Number of workers to keep busy.
    memory : int
        Bytes that one worker may use.
    block_bytes : int, optional
        Bytes of input a block shall hold; a chunk is the least that is read.

    Raises
    ------
    Misuse
        If no block of this stack fits into `memory`.
    """
    grain = tuple(max(c, default=1) or 1 for c in stack.chunks)
    budget = block_bytes or default_budget(stack, workers)
    while True:
        limit = max(1, budget // max(1, stack.matrix_bytes))
        if prod(grain) > limit:
            block_shape = split_chunk(grain, limit)
            read_shape = grain
        else:
            block_shape = read_shape = grow_block(stack.shape, grain, limit)
        need = estimate_memory(stack, block_shape, read_shape)
        if need <= memory:
            return Plan(stack.shape, block_shape, read_shape, need)
        if block_bytes or budget <= stack.matrix_bytes:
            raise Misuse(explain_misfit(stack, block_shape, need, memory, block_bytes))
        budget //= 2


def default_budget(stack: Stack, workers: int) -> int:
    """Bytes of input for one block when the user names none."""
    total = prod(stack.shape) * stack.matrix_bytes
    share = total // max(1, BLOCKS_PER_WORKER * workers)
    return min(TARGET_BYTES, max(FLOOR_BYTES, share))


def grow_block(shape: Sequence[int], grain: Sequence[int], limit: int) -> tuple[int, ...]:
    """Grow `grain` by whole multiples, last dimension first, to at most `limit` matrices."""
    extents = [max(1, min(g, s)) for g, s in zip(grain, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        room = limit // prod(extents)
        if room * extents[axis] >= shape[axis]:
            extents[axis] = max(1, shape[axis])
            continue
        extents[axis] *= max(1, room)
        break
    return tuple(extents)


def split_chunk(grain: Sequence[int], limit: int) -> tuple[int, ...]:
    """Split a chunk into equal blocks of at most `limit` matrices, first dimension first.

    Parts must divide the chunk, because the output's shards form a regular
    grid; where an extent has no useful divisor (a prime) the chunk stays whole
    along it.
    """
    extents = list(grain)
    for axis, extent in enumerate(grain):
        rest = prod(extents) // extents[axis]
        want = max(1, limit // rest)
        part = next(d for d in range(min(want, extent), 0, -1) if extent % d == 0)
        if part * 16 < want:
            continue
        extents[axis] = part
        if prod(extents) <= limit:
            break
    return tuple(extents)


def estimate_memory(stack: Stack, block_shape: Sequence[int], read_shape: Sequence[int]) -> int:
    """Bytes one worker needs at most.

    The process; a block that is solved, which is what was read and its results; for each further
    task in flight what it reads, with one chunk's worth of encoded bytes, or writes.
    """
    matrices = prod(read_shape) * stack.matrix_bytes
    results = prod(block_shape) * stack.result_bytes
    beside = max(matrices + stack.chunk_bytes, results)
    alone = matrices + max(stack.chunk_bytes, results)
    return stack.process_bytes + alone + (stack.in_flight - 1) * beside


def explain_misfit(
    stack: Stack, block_shape: Sequence[int], need: int, memory: int, block_bytes: int | None
) -> str:
    """Say why a stack cannot be run in the memory there is, and what would do."""
    if memory <= stack.process_bytes:
        return (
            f"a worker has {memory / MIB:.0f} MiB, and the process alone takes "
            f"{stack.process_bytes // MIB} MiB: set cluster.memory to {ceil(need / MIB)}MiB or more"
        )
    room = memory - stack.process_bytes
    per_matrix = 2 * stack.in_flight * stack.matrix_bytes + stack.result_bytes
    fit = max(1, room // max(1, per_matrix))
    remedy = (
        "give a smaller plan.block_bytes"
        if block_bytes and prod(block_shape) > max(1, fit)
        else f"rechunk the input to about {fit} matrices a chunk"
    )
    return (
        f"a block of this stack does not fit into a worker: its smallest block is "
        f"{tuple(block_shape)} matrices, stored in chunks of {stack.chunk_bytes / MIB:.0f} MiB, "
        f"and needs {need / MIB:.0f} MiB; a worker has {memory / MIB:.0f} MiB. "
        f"Give each worker more (cluster.memory={ceil(need / MIB)}MiB, perhaps with fewer "
        f"cluster.workers), or {remedy}."
    )


make_callable(__name__)
