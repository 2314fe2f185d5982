"""Whatever fsspec knows and obstore does not, for reading; the one file that imports fsspec."""

from __future__ import annotations

from functools import cache

from zarr.storage import FsspecStore

from pipeline.errors import Misuse
from pipeline.places.options import read_options
from pipeline.redaction import hide, list_secrets


@cache
def open_filesystem(url: str, options: str) -> FsspecStore:
    """Open a URL of any scheme that fsspec has an implementation for."""
    scheme = url.partition("://")[0]
    try:
        import fsspec
    except ImportError as error:
        raise Misuse(
            f"{scheme}:// URLs need the package fsspec, which is not installed; "
            f"pip install 'eigenstream[cloud]'"
        ) from error
    given = read_options(options)
    try:
        fsspec.get_filesystem_class(scheme)
        return FsspecStore.from_url(url, storage_options=given or None, read_only=True)
    except (ValueError, ImportError) as error:
        words = hide(" ".join(str(error).split()), list_secrets(given))
        raise Misuse(
            f"{url}: neither obstore nor fsspec can open {scheme}:// ({words}). Install what it "
            f"names, or copy the store to a local disk"
        ) from None
