"""Sources: stacks of matrices that lie in stores which other programs wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.sources.source import Source

if TYPE_CHECKING:
    from pipeline.config import SourceConfig

__all__ = ["Source", "open_source"]


def open_source(config: SourceConfig) -> Source:
    """Open the stack that the `source` group of the config describes.

    Reads metadata, coordinates and the inventory of chunk files; no matrix.

    Raises
    ------
    Misuse
        When it cannot be read as configured: no store, no such variable, matrices that are not
        square, an unknown codec, a selection out of range, a mask that does not fit, absent
        chunks under `source.missing=error`. The message lists what is there.
    """
    return Source(config)
