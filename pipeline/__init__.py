"""Eigenstream: diagonalise, verify and label stacks of Hermitian matrices too large for memory.

`pipeline.run`, `plan`, `verify` and `open` do what the command line does; they are
loaded when they are first used, so that `import pipeline` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.distribution import check_kernels, is_program

if TYPE_CHECKING:
    from pipeline.api import open, plan, run, verify

    __version__: str

__all__ = ["__version__", "open", "plan", "run", "verify"]

if not is_program():
    check_kernels()


def __getattr__(name: str) -> Any:
    if name in ("run", "plan"):
        from importlib import import_module

        return import_module(f"pipeline.{name}")  # callable: see pipeline.callable
    if name in ("open", "verify"):
        from pipeline import api

        return getattr(api, name)
    if name == "__version__":
        return _read_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("eigenstream")
    except PackageNotFoundError:  # imported from a checkout that is not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
