"""The index of a shard: which of its inner chunks are there.

Zarr v3 `sharding_indexed` codec: for every inner chunk two little-endian uint64, offset and
length, both 2^64 - 1 when the chunk is absent; at the start or the end of the file, usually
followed by its CRC-32C (https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from pipeline.places import Place, read_head, read_tail

_ABSENT = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class ShardLayout:
    """Where the inner chunks of a sharded array's shards are listed.

    Attributes
    ----------
    inner : tuple of int
        Shape of an inner chunk, along the array's dimensions.
    counts : tuple of int
        Inner chunks of a shard along the array's dimensions.
    order : tuple of int
        The array's dimensions in the order in which the index is stored.
    at_end, checked, big : bool
        The index is at the end of the file; is followed by its CRC-32C; is big-endian.
    alone : bool
        No other codec is around the sharding, so inner chunks can be read singly.
    """

    inner: tuple[int, ...]
    counts: tuple[int, ...]
    order: tuple[int, ...]
    at_end: bool
    checked: bool
    big: bool
    alone: bool


def find_layout(
    codecs: Sequence[Mapping[str, Any]], shard: Sequence[int]
) -> tuple[ShardLayout | None, str | None]:
    """Read the sharding out of a v3 array's codecs.

    Returns
    -------
    layout : ShardLayout or None
        None when the array isn't sharded, or its index can't be read by itself.
    reason : str or None
        Why a sharded array's index can't be read.
    """
    order = tuple(range(len(shard)))
    for i, codec in enumerate(codecs):
        settings = codec.get("configuration") or {}
        if codec["name"] == "transpose" and isinstance(settings.get("order"), list):
            order = tuple(order[a] for a in settings["order"])
        if codec["name"] != "sharding_indexed":
            continue
        if i + 1 < len(codecs):
            return None, f"its shards are wrapped in {codecs[i + 1]['name']}"
        index = settings.get("index_codecs", [])
        names = [c["name"] for c in index]
        if names not in (["bytes"], ["bytes", "crc32c"]):
            return None, f"its shard index is encoded by {names}"
        inner = [0] * len(shard)
        for stored, axis in enumerate(order):
            inner[axis] = int(settings["chunk_shape"][stored])
        counts = tuple(s // c for s, c in zip(shard, inner, strict=True))
        big = (index[0].get("configuration") or {}).get("endian", "little") == "big"
        at_end = settings.get("index_location", "end") == "end"
        return ShardLayout(
            tuple(inner), counts, order, at_end, len(names) == 2, big, len(codecs) == 1
        ), None
    return None, None


def read_present(path: Place, layout: ShardLayout) -> npt.NDArray[np.bool_] | None:
    """Which inner chunks a shard holds, along the array's dimensions.

    None when the index is damaged: a chunk that cannot be read is not an absent one, and
    reading it later says what is wrong.
    """
    length = 16 * prod(layout.counts)
    total = length + 4 * layout.checked
    raw = read_tail(path, total) if layout.at_end else read_head(path, total)
    if len(raw) != total:
        return None
    if layout.checked and google_crc32c.value(raw[:length]) != struct.unpack("<I", raw[length:])[0]:
        return None
    pairs = np.frombuffer(raw[:length], dtype=">u8" if layout.big else "<u8").reshape(-1, 2)
    present = (pairs != _ABSENT).any(axis=1).reshape([layout.counts[a] for a in layout.order])
    turned: npt.NDArray[np.bool_] = present.transpose(np.argsort(layout.order))
    return turned
