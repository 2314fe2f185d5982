"""Sources: stacks of matrices that lie in stores which other programs wrote, or are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.choices import Kind
from pipeline.sources.source import Source

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

__all__ = ["Source", "open_source"]


def open_source(config: SourceConfig) -> Any:
    """Open the stack that the `source` group of the config describes.

    Reads metadata, coordinates and the inventory of chunk files, or the terms of a formula; no
    matrix. The answer is a `Source`, or has its attributes and methods.

    Raises
    ------
    Misuse
        When it cannot be read as configured: no store, no such variable, matrices that are not
        square, an unknown codec, a selection out of range, a mask that does not fit, absent
        chunks under `source.missing=error`. The message lists what is there.
    """
    if config.kind == Kind.wannier90:
        from pipeline.sources.wannier90 import open_wannier90

        return open_wannier90(config)
    if config.kind == Kind.function:
        from pipeline.sources.function import open_function

        return open_function(config)
    if config.kind == Kind.tensors:
        from pipeline.sources.tensors import Tensors

        return Tensors(config)
    if config.kind == Kind.covariance:
        from pipeline.sources.covariance import Covariances

        return Covariances(config)
    if config.kind == Kind.phonopy:
        from pipeline.sources.phonopy import open_phonopy

        return open_phonopy(config)
    return Source(config)
