"""The site of an output: found, reached, fit for one, and cleared."""

from __future__ import annotations

import contextlib
import glob
import json
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import Misuse
from pipeline.ledger import GROUP
from pipeline.places import Place, Remote, list_names, locate

if TYPE_CHECKING:
    from pipeline.job import Setup

STATE = "run/state"
"""Where the lease lies."""


def locate_output(target: str, options: Mapping[str, Any] | None = None) -> Place:
    """Find the place of an output; only a disk or an object store can be one."""
    path = locate(target, options or {}, "sink")
    if isinstance(path, Path):
        return path.absolute()
    if path.root.kind != "objects" or not path.root.has_listing or not path.key:
        raise Misuse(
            f"sink.path={target}: outputs are written to folders, and to a key in a bucket of an "
            f"object store (s3://BUCKET/KEY, gs://, az://): others have no conditional writes, "
            f"without which two runs could write one output"
        )
    return path


def reach(path: Place) -> bool:
    """Whether an output of ours is at `path`; Misuse where its store cannot be reached."""
    with reaching(path):
        return is_output(path)


@contextlib.contextmanager
def reaching(path: Place) -> Iterator[None]:
    """Turn what an object store says against being looked at into a Misuse."""
    try:
        yield
    except OSError as error:
        if isinstance(path, Path):
            raise
        raise Misuse(
            f"sink.path cannot be read: {error}. Check the address, and the credentials in the "
            f"environment or in sink.storage_options"
        ) from None


def is_output(path: Place) -> bool:
    """Whether an output of ours is at `path`, whole."""
    if isinstance(path, Remote):
        return GROUP in read_listed(path)
    return (path / "run" / "zarr.json").is_file() and (path / "run" / "state").is_dir()


def read_listed(path: Place) -> dict[str, Any]:
    """Read what the root's metadata list: each node's metadata by its name.

    They name a group only when all of it is there.
    """
    try:
        root = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        return dict((root.get("consolidated_metadata") or {}).get("metadata") or {})
    except (FileNotFoundError, ValueError):
        return {}


def check_place(path: Place, setup: Setup) -> None:
    """Refuse a place where an output must not or cannot be made."""
    source = locate(setup.config.source.path, setup.config.source.storage_options)
    if isinstance(path, Remote):
        check_key(path, str(source))
        return
    source = source.resolve() if isinstance(source, Path) else source
    # a store is ours to keep clear of; beside text files of another program results may lie
    inside = source in path.parents and not setup.config.source.kind.is_text
    if path == source or inside or path in source.parents:
        raise Misuse(f"sink.path={path} lies in or around the input {source}; give another one")
    if path.is_dir() and not is_output(path) and any(path.iterdir()):
        raise Misuse(
            f"sink.path={path} is a folder that holds something else; nothing there is touched. "
            f"Give a new path, or remove it yourself"
        )
    if path.exists() and not path.is_dir():
        raise Misuse(f"sink.path={path} is a file; give the path of a new folder")


def check_key(path: Remote, source: str) -> None:
    """Refuse a key in or around the input, or where something else lies."""
    if f"{path}/".startswith(f"{source}/") or f"{source}/".startswith(f"{path}/"):
        raise Misuse(f"sink.path={path} lies in or around the input {source}; give another one")
    folders, files = path.list_names()
    ours = is_output(path) or any(name.startswith("lease.") for name in list_names(path / STATE))
    if (folders or files) and not ours:  # a run that was killed while it made it left its lease
        raise Misuse(
            f"sink.path={path} holds something else; nothing there is touched. Give a new path, "
            f"or remove it yourself"
        )


@contextlib.contextmanager
def new_folder(parent: Path, stem: str) -> Iterator[Path]:
    """Create a folder of its own for one launch; taken away again if the launch does not start."""
    for number in range(1, 10_000):
        folder = parent / (stem if number == 1 else f"{stem}_{number}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


def remove_output(path: Path) -> None:
    """Remove an output on a disk, whole: it is first moved out of sight, then deleted."""
    gone = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.gone")
    path.rename(gone)
    shutil.rmtree(gone)


def sweep_drafts(path: Place) -> None:
    """Remove what killed processes left beside an output, once it is an hour old."""
    if isinstance(path, Remote):
        return  # nothing is ever made beside it
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if left.suffix in (".draft", ".old", ".gone"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > 3600:
                    shutil.rmtree(left, ignore_errors=True)
