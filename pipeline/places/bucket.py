"""Object stores through obstore: S3, Google, Azure, and plain HTTP.

The one file that imports obstore.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from zarr.storage import ObjectStore

from pipeline.errors import Misuse
from pipeline.places.options import read_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Objects

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https")
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
RETRIES = 8
"""Times that a request is tried again: after server errors, lost connections, and time-outs."""
FIRST_SECONDS, LAST_SECONDS, GROWTH = 0.2, 10.0, 4.0
"""Waiting time before the first retry; each further one waits for a time drawn between that and
GROWTH times the last one, at most LAST_SECONDS: some 20 s in all (with obstore's own growth of 2
it would be 3 s), so that a store that restarts is not a store that is lost."""
GIVE_UP_SECONDS = 120.0
"""Time after which a request is not tried again, however few retries it had."""
INSIST_SECONDS = 10.0
"""Time for which conditional puts and removals are sent again; see `insist`."""
CONNECT_SECONDS, SILENT_SECONDS, REQUEST_SECONDS = 10, 30, 600
"""A connection that does not come about, a silent one, and a request that takes too long, fail."""


@cache
def open_bucket(url: str, options: str) -> Objects:
    """Open a bucket, or the server of HTTP addresses, once in each process.

    Parameters
    ----------
    url : str
        Scheme and bucket, such as `s3://data`.
    options : str
        Storage options (see `pipeline.places.options`). `client_options` and `retry_config` go to
        obstore as such; all others are options of the store, such as `endpoint`.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import HTTPStore, from_url
    except ImportError as error:
        raise Misuse(
            f"{url}: object stores need the package obstore, which is not installed; "
            f"pip install 'eigenstream[cloud]'"
        ) from error
    given = read_options(options)
    client = choose_client(url, given)
    retry = choose_retries(given.pop("retry_config", {}))
    try:
        if url.startswith("http"):
            return HTTPStore.from_url(url, client_options=client, retry_config=retry, **given)
        return from_url(url, config=given, client_options=client, retry_config=retry)
    except (BaseError, TypeError, ValueError) as error:
        words = str(error).partition("\n")[0]
        raise Misuse(
            f"{url}: {words} Expected storage options of obstore for this kind of store, such as "
            f"endpoint, region, access_key_id, secret_access_key; got {', '.join(sorted(given))}"
        ) from None


def choose_client(url: str, given: dict[str, Any]) -> dict[str, Any]:
    """Take the client's options out of the given ones; plain HTTP is allowed where it is named."""
    named = [str(v) for k, v in given.items() if "endpoint" in k]
    endpoint = next(iter([*named, *(os.environ[k] for k in ENDPOINTS if k in os.environ)]), url)
    plain = {"allow_http": True} if endpoint.startswith("http://") else {}
    times = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "read_timeout": f"{SILENT_SECONDS}s",
        "timeout": f"{REQUEST_SECONDS}s",
    }
    return {**times, **plain, **given.pop("client_options", {})}


def choose_retries(given: Mapping[str, Any]) -> Any:
    """Choose how often and how long a request is tried again; the given values are seconds."""
    backoff = given.get("backoff", {})
    return {
        "max_retries": int(given.get("max_retries", RETRIES)),
        "retry_timeout": timedelta(seconds=float(given.get("retry_timeout", GIVE_UP_SECONDS))),
        "backoff": {
            "init_backoff": timedelta(seconds=float(backoff.get("init_backoff", FIRST_SECONDS))),
            "max_backoff": timedelta(seconds=float(backoff.get("max_backoff", LAST_SECONDS))),
            "base": float(backoff.get("base", GROWTH)),
        },
    }


def open_objects(url: str, options: str) -> ObjectStore[Any]:
    """Open a bucket as a Zarr store; one of HTTP addresses for reading only."""
    return InsistentStore(open_bucket(url, options), read_only=url.startswith("http"))


class InsistentStore(ObjectStore["Objects"]):
    """Objects as a Zarr store, in which removals outlive a lost connection."""

    async def delete(self, key: str) -> None:
        self._check_writable()
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(remove_objects, self.store, [key])


def list_folder(bucket: Objects, key: str) -> tuple[list[str], list[str]]:
    """List the names of the folders and of the objects right below a key."""
    import obstore

    found = obstore.list_with_delimiter(bucket, prefix=key or None)
    folders = [path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]]
    return sorted(folders), sorted(o["path"].rpartition("/")[2] for o in found["objects"])


def list_sizes(bucket: Objects, key: str) -> Iterator[tuple[str, int]]:
    """List every object below a key, with its size in bytes."""
    import obstore

    for batch in obstore.list(bucket, prefix=key or None):
        yield from ((item["path"], item["size"]) for item in batch)


def create_object(bucket: Objects, key: str, content: bytes) -> bool:
    """Create an object unless it exists (If-None-Match); says whether it was created here.

    One that was carried out though its answer was lost is sent again, and then the answer is that
    the object exists: so what exists is looked at. The content must be nobody else's.
    """
    import obstore

    try:
        insist(lambda: obstore.put(bucket, key, content, mode="create"))
        return True
    except obstore.exceptions.AlreadyExistsError:
        return bytes(obstore.get(bucket, key).bytes()) == content


def read_time(bucket: Objects, key: str) -> datetime:
    """Tell when an object was last written, by the store's clock."""
    import obstore

    written: datetime = obstore.head(bucket, key)["last_modified"]
    return written


def remove_objects(bucket: Objects, keys: list[str]) -> None:
    """Remove objects."""
    import obstore

    if keys:
        insist(lambda: obstore.delete(bucket, keys))


def insist(call: Callable[[], Any]) -> None:
    """Carry out a request that obstore does not send again once its connection was lost, because
    it may have been carried out: conditional puts, and removals."""
    from obstore.exceptions import GenericError

    deadline, pause = time.monotonic() + INSIST_SECONDS, FIRST_SECONDS
    while True:
        try:
            call()
            return
        except GenericError:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause *= 2
