"""Snapshots of icechunk repositories, for reading; the one file that imports icechunk.

Never written to: on a local disk concurrent commits are not safe, and of two sessions that write
one chunk the last to merge wins in silence.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from zarr.abc.store import Store

from pipeline.errors import Misuse
from pipeline.places.options import pack_options, read_options
from pipeline.redaction import hide, list_secrets

WHICH = ("branch", "tag", "snapshot_id")
S3_NAMES = {
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "region": "region",
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "skip_signature": "anonymous",
}
"""What storage options are called in icechunk."""


def pin_snapshot(url: str, options: str) -> str:
    """Choose the snapshot that storage options name, by default the newest of branch `main`.

    Returns the options with its id: every worker, and every later read, sees the same data,
    whatever is committed meanwhile.
    """
    given = read_options(options)
    which = {k: given.pop(k) for k in WHICH if k in given}
    if len(which) > 1:
        raise Misuse(f"{url}: got {' and '.join(which)} in storage_options; expected one of them")
    try:
        session = open_repository(url, options).readonly_session(**(which or {"branch": "main"}))
    except Misuse:
        raise
    except Exception as error:
        words = hide(" ".join(str(error).split()), list_secrets(given))
        asked = ", ".join(f"{k}={v}" for k, v in which.items()) or "branch=main"
        raise Misuse(
            f"{url} cannot be opened as an icechunk repository at {asked}: {words}. Name what to "
            f"read: source.storage_options.branch=NAME, .tag=NAME or .snapshot_id=ID"
        ) from None
    return pack_options({**given, "snapshot_id": session.snapshot_id})


@cache
def open_snapshot(url: str, options: str) -> Store:
    """Open a snapshot as a Zarr store, read-only."""
    chosen = read_options(options)["snapshot_id"]
    session = open_repository(url, options).readonly_session(snapshot_id=chosen)
    store: Store = session.store
    return store


def open_repository(url: str, options: str) -> Any:
    """Open a repository on a local disk or on S3."""
    try:
        import icechunk
    except ImportError as error:
        raise Misuse(
            f"{url} is an icechunk repository, and icechunk is not installed; "
            f"pip install 'eigenstream[icechunk]'"
        ) from error
    # it prints, to stdout, that commits to a local disk are not safe; here nothing is committed
    icechunk.set_logs_filter("error")
    if "://" not in url:
        storage = icechunk.local_filesystem_storage(str(Path(url)))
        return icechunk.Repository.open(storage)
    scheme, _, rest = url.partition("://")
    if scheme not in ("s3", "s3a"):
        raise Misuse(f"{url}: icechunk repositories are read from local disks and from s3://")
    bucket, _, prefix = rest.partition("/")
    given = read_options(options)
    named = {S3_NAMES[k]: v for k, v in given.items() if k in S3_NAMES}
    plain = str(named.get("endpoint_url", "")).startswith("http://")
    storage = icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        allow_http=plain,
        force_path_style=plain,
        from_env="access_key_id" not in named and not named.get("anonymous"),
        **named,
    )
    return icechunk.Repository.open(storage)
