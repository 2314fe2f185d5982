"""The output: a labelled template made first, then whole blocks written by position."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from pipeline.choices import Compressor
from pipeline.errors import ReadError
from pipeline.layout import Layout, Variable
from pipeline.ledger import create_ledger
from pipeline.places import Place, Remote, pick, replace_text
from pipeline.plan import Block
from pipeline.shard import ShardWriter
from pipeline.site import STATE

INNER_BYTES = 4 << 20
"""Decoded size above which a shard is divided into chunks, so that readers can take a part."""
FORMAT = 1
ENCODINGS = ("units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue")


def create_output(
    path: Place,
    layout: Layout,
    block_shape: Sequence[int],
    blocks: Sequence[Block],
    provenance: dict[str, Any],
) -> None:
    """Make a whole, empty, labelled output at `path`, in one step.

    On a disk it is built beside and renamed into place, so that `path` is either absent or
    complete; of two processes that create the same output, one fails. On an object store the
    root's metadata are written last; the caller holds the lease.

    Raises
    ------
    FileExistsError
        If something other than an empty folder is at `path`.
    """
    if isinstance(path, Remote):
        path.clear(keep=f"{STATE}/lease.")
        fill_output(path, layout, block_shape, blocks, provenance)
        return
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fill_output(draft, layout, block_shape, blocks, provenance)
        try:
            draft.rename(path)  # onto an empty folder, too, but never onto a full one
        except OSError as error:
            if path.exists():
                raise FileExistsError(str(path)) from error
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fill_output(
    path: Place,
    layout: Layout,
    block_shape: Sequence[int],
    blocks: Sequence[Block],
    provenance: dict[str, Any],
) -> None:
    """Write all that an output holds before its first block; the consolidated metadata last."""
    root = zarr.open_group(pick(path), mode="a", zarr_format=3)
    create_ledger(root, blocks, provenance)  # first, for a lease may lie where it will be
    write_coordinates(path, layout.coords)
    for variable in layout.variables:
        create_variable(root, variable, layout, block_shape)
    consolidate(path)


def write_coordinates(path: Place, coords: xr.Dataset) -> None:
    """Write coordinates and root attributes as a new Zarr v3 group."""
    plain = coords.copy()
    for name, variable in plain.variables.items():
        kept = {k: v for k, v in variable.encoding.items() if k in ENCODINGS}
        if variable.dtype.kind in "SU":
            # fixed-width text has no settled Zarr v3 form
            plain[name] = plain[name].astype(object)
            kept = {}
        plain[name].encoding = kept
    plain.attrs["Conventions"] = plain.attrs.get("Conventions", "CF-1.11")
    # "a", because "w" would empty a place in an object store, the lease included
    plain.to_zarr(pick(path), mode="a", zarr_format=3, consolidated=False)


def create_variable(
    root: zarr.Group, variable: Variable, layout: Layout, block_shape: Sequence[int]
) -> None:
    """Create one result array whose shards are the blocks."""
    shard = (*(max(1, b) for b in block_shape), *variable.sizes)
    inner = divide_shard(shard, len(block_shape), np.dtype(variable.dtype).itemsize)
    root.create_array(
        variable.name,
        shape=(*layout.shape, *variable.sizes),
        dtype=variable.dtype,
        chunks=inner,
        shards=shard if inner != shard else None,
        compressors=make_codecs(variable.compressor),
        fill_value=variable.fill,
        dimension_names=(*layout.dims, *variable.dims),
        attributes=dict(variable.attrs),
    )


def make_codecs(compressor: Compressor) -> list[Any]:
    """List the codecs of a chunk: whatever they are, damage to it is noticed when it is read."""
    if compressor is Compressor.zstd:
        return [ZstdCodec(level=1, checksum=True)]
    if compressor is Compressor.lz4:
        return [BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec()]
    return [Crc32cCodec()]


def divide_shard(shard: tuple[int, ...], batch: int, itemsize: int) -> tuple[int, ...]:
    """Divide a shard's batch extents until a chunk holds at most INNER_BYTES."""
    inner = list(shard)
    for axis in range(batch):
        size = itemsize * int(np.prod(inner))
        if size <= INNER_BYTES:
            break
        want = max(1, inner[axis] * INNER_BYTES // size)
        part = next(d for d in range(want, 0, -1) if inner[axis] % d == 0)
        inner[axis] = part if part * 8 >= want else inner[axis]
    return tuple(inner)


def consolidate(path: Place) -> None:
    """Gather all metadata of an output in its root, as xarray wants to find it."""
    with warnings.catch_warnings():
        # the v3 specification does not name consolidated metadata yet; xarray reads it
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        zarr.consolidate_metadata(pick(path), zarr_format=3)


@cache
def find_writer(path: Path, name: str) -> ShardWriter:
    """How the blocks of a result array become files, found once in each process."""
    return ShardWriter.of(open_variable(path, name), path / name)


@cache
def open_variable(path: Place, name: str) -> zarr.Array[Any]:
    """Open a result array, once in each process."""
    return zarr.open_array(pick(path), path=name, mode="r+", zarr_format=3)


def write_block(path: Place, block: Block, results: Mapping[str, NDArray[Any]]) -> None:
    """Write one block whole, each array as one file; `results` maps array names to values.

    The status goes last: where it says ok, the values are there.
    """
    for name in sorted(results, key=lambda name: name == "status"):
        if isinstance(path, Remote):  # a shard goes there whole in any case
            open_variable(path, name)[block.slices] = results[name]
        else:
            find_writer(path, name).write(block.start, results[name])


def read_block(path: Place, name: str, block: Block) -> NDArray[Any]:
    """Read one block of a result array.

    Raises
    ------
    ReadError
        If its chunks are damaged, whatever the codec calls that.
    """
    try:
        return np.asarray(open_variable(path, name)[block.slices])
    except Exception as error:
        raise ReadError(f"{path}: `{name}` {list(block.slices)} cannot be read: {error}") from error


def replace_group(path: Place, name: str, dataset: xr.Dataset) -> None:
    """Put a derived group into an output, in place of the one before.

    A kill at any instant leaves an output that opens: the root's metadata name the group only
    while all of it is there.
    """
    if isinstance(path, Remote):
        hide_group(path, name)
        (path / name).clear()
        write_coordinates(path / name, dataset)
        consolidate(path)
        return
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.draft")
    old = draft.with_suffix(".old")
    try:
        write_coordinates(draft, dataset)
        hide_group(path, name)
        with contextlib.suppress(FileNotFoundError):
            (path / name).rename(old)
        draft.rename(path / name)
        consolidate(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def hide_group(path: Place, name: str) -> None:
    """Take a group out of the root's metadata, in one step."""
    file = path / "zarr.json"
    root = json.loads(file.read_text(encoding="utf-8"))
    listed = root["consolidated_metadata"]["metadata"]
    for key in [key for key in listed if key == name or key.startswith(f"{name}/")]:
        del listed[key]
    replace_text(file, json.dumps(root))
