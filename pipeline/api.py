"""The program as Python functions: `pipeline.run`, `plan`, `verify` and `open`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

from pipeline.config import compose
from pipeline.errors import Misuse
from pipeline.plan import Plan

if TYPE_CHECKING:
    from pipeline.places import Place


def run(overrides: Sequence[str] = (), **nested: Any) -> xr.DataTree:
    """Run a job, or go on with it, and open its output.

    Parameters
    ----------
    overrides : sequence of str
        As on the command line, such as `["+experiment=spectra"]`.
    **nested
        Values on top of them, by group: `source={"path": "H.zarr"}`, `cluster="serial"`.

    Returns
    -------
    xarray.DataTree
        As `open` returns it. Matrices that failed hold NaN; their `status` says why.

    Raises
    ------
    Misuse
        A ValueError, if the job cannot be done as asked; nothing has been written.

    Examples
    --------
    >>> tree = pipeline.run(source={"path": "H.zarr"}, spectrum="dos")  # doctest: +SKIP
    """
    from pipeline.run import run as run_config

    return open_tree(run_config(compose(overrides, nested=nested)).path)


def plan(overrides: Sequence[str] = (), **nested: Any) -> Plan:
    """Cut a job's input into blocks as `run` would; starts nothing and writes nothing."""
    from pipeline.job import prepare

    return prepare(compose(overrides, nested=nested)).plan()


def verify(out: str | os.PathLike[str], **options: Any) -> Any:
    """Prove results of a finished run again; see `pipeline.verbs.verify.verify`."""
    from pipeline.verbs import verify as verb

    return verb.verify(os.fspath(out), **options)


def open(
    out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> xr.DataTree:
    """Open an output: results at the root, what is derived from them in groups below.

    Parameters
    ----------
    out : path or URL
        The folder that `run` printed.
    storage_options : mapping, optional
        How its object store is opened, if it is on one.

    Raises
    ------
    Misuse
        If there is no output of ours.
    """
    from pipeline.site import locate_output

    return open_tree(locate_output(os.path.expanduser(out), storage_options))  # noqa: PTH111


def open_tree(path: Place) -> xr.DataTree:
    """Open the output at a place."""
    from pipeline.places import pick
    from pipeline.site import reach

    if not reach(path):
        what = "is no output of eigenstream" if path.exists() else "does not exist"
        raise Misuse(f"{path} {what}: expected the folder that `run` printed on its last line")
    store: Any = pick(path)  # xarray takes any Zarr store, though its types do not say so
    return xr.open_datatree(store, engine="zarr", consolidated=True)
