"""Where an output came from: versions, identities by stage, and how two of them differ."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.redaction import hide_arguments

PACKAGES = (
    "eigenstream",
    "torch",
    "numpy",
    "scipy",
    "zarr",
    "numcodecs",
    "xarray",
    "dask",
    "distributed",
)
OPTIONAL = ("nibabel", "phonopy", "spglib", "symfc")
"""Packages that read some inputs: named where they are installed."""


def list_versions() -> dict[str, str]:
    """List the versions of what took part."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    for name in OPTIONAL:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def describe_launch(**details: Any) -> dict[str, Any]:
    """Describe one launch: when, where, and by which process."""
    return {
        "started": tell_time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job": os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID"),
        "platform": platform.platform(),
        "command": hide_arguments(sys.argv),
        **details,
    }


def tell_time() -> str:
    """Tell the time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest(value: Any) -> str:
    """Digest a JSON-able value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def to_json(value: Any) -> Any:
    """Turn a nested value into what JSON gives back, so that fresh and stored compare equal."""
    return json.loads(json.dumps(value, sort_keys=True, default=str))


def list_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield one line `key: old -> new` for each leaf in which two nested mappings differ."""
    for key in sorted({*old, *new}):
        name, a, b = f"{prefix}{key}", old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from list_differences(a, b, f"{name}.")
        elif a != b:
            yield f"{name}: {shorten(a)} -> {shorten(b)}"


def shorten(value: Any, length: int = 60) -> str:
    """Show a value in at most `length` characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 1] + "…"
