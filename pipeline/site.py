"""The site of an output: found, reached, and fit for one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import Misuse
from pipeline.places import Place, Remote, list_names, locate
from pipeline.sink import STATE, is_output

if TYPE_CHECKING:
    from pipeline.job import Setup


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


def check_place(path: Place, setup: Setup) -> None:
    """Refuse a place where an output must not or cannot be made."""
    source = locate(setup.config.source.path, setup.config.source.storage_options)
    if isinstance(path, Remote):
        check_key(path, str(source))
        return
    source = source.resolve() if isinstance(source, Path) else source
    if path == source or source in path.parents or path in source.parents:
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
