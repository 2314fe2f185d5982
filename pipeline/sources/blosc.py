"""Blosc frames: a decoder reads as many bytes as their header says, and on beyond their end."""

from __future__ import annotations

from typing import Any

HEADER = 16
"""Bytes of a frame's header; the last four are the length of the whole."""


class CutShort(ValueError):
    """A chunk is shorter than its header says."""


def holds_frames(zarr_format: int, metadata: dict[str, Any]) -> bool:
    """Whether what is stored of each chunk is one Blosc frame."""
    if zarr_format == 2:
        return (metadata.get("compressor") or {}).get("id") == "blosc"
    return str(metadata["codecs"][-1]["name"]).rpartition(".")[2] == "blosc"


def check_frame(head: bytes, length: int) -> None:
    """Raise CutShort for a frame of fewer bytes than it says, of which the first are given."""
    size = int.from_bytes(head[12:HEADER], "little")
    if length < max(HEADER, size):
        raise CutShort(f"it has {length} bytes, and says that it has {size}")
