"""A part of a Zarr store, seen as a store of its own, whose errors are in the store's own words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from pipeline.redaction import hide, list_environment

ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class Subtree(Store):
    """What lies below one key of a store.

    Parameters
    ----------
    store : Store
        The whole.
    key : str
        Where the part begins; empty for all of it.
    name : str
        The whole, for messages.
    secrets : list of str
        What no message may show.

    Attributes
    ----------
    watch : callable or None
        Is shown what was found at a key, None for nothing, and may raise. zarr-python takes what
        is absent for fill values, and lost storage must never pass for missing data.
    """

    watch: Callable[[str, Buffer | None], None] | None = None

    def __init__(self, store: Store, key: str, name: str, secrets: list[str]) -> None:
        super().__init__(read_only=store.read_only)
        self._whole, self._key, self._name, self._secrets = store, key, name, secrets
        self._is_open = True

    def with_read_only(self, read_only: bool = False) -> Subtree:
        """See `zarr.abc.store.Store`."""
        whole = self._whole
        if whole.read_only != read_only:
            whole = whole.with_read_only(read_only)
        return Subtree(whole, self._key, self._name, self._secrets)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Subtree)
            and (self._whole, self._key) == (other._whole, other._key)
            and self.read_only == other.read_only
        )

    __hash__ = None  # type: ignore[assignment]  # as of every store

    def __str__(self) -> str:
        return f"{self._name}/{self._key}".rstrip("/")

    def full(self, key: str) -> str:
        """The key within the whole."""
        return "/".join(part for part in (self._key, key) if part)

    @contextlib.contextmanager
    def translated(self, key: str = "") -> Iterator[None]:
        """Turn every error but absence into an OSError that names the key; without a cause, for
        the chain would show up in a log, and what stores say may hold credentials."""
        try:
            yield
        except ABSENT:
            raise FileNotFoundError(f"{self._name}/{self.full(key)} is absent") from None
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise OSError(f"{self._name}/{self.full(key)}: {self.quote(error)}") from None

    def quote(self, error: Exception) -> str:
        """What a store says about an error, on one line, without credentials."""
        words = " ".join(str(error).partition("\n\nDebug source")[0].split())
        text = hide(words, [*self._secrets, *list_environment()]) or type(error).__name__
        if "169.254.169.254" in text or "metadata.google" in text:
            text += (
                ". No credentials were found: give them in the environment or in storage_options, "
                "or say storage_options.skip_signature=true for a public bucket"
            )
        return text

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """See `zarr.abc.store.Store`."""
        with self.translated(key):
            try:
                found = await self._whole.get(self.full(key), prototype, byte_range)
            except Exception as error:
                if byte_range is None or type(error).__name__ != "NotSupportedError":
                    raise
                # a plain web server that gives no parts of files
                found = cut(await self._whole.get(self.full(key), prototype), byte_range)
        if self.watch is not None:
            self.watch(key, found)
        return found

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """See `zarr.abc.store.Store`."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """See `zarr.abc.store.Store`."""
        with self.translated(key):
            return await self._whole.exists(self.full(key))

    @property
    def supports_writes(self) -> bool:
        """See `zarr.abc.store.Store`."""
        return self._whole.supports_writes

    async def set(self, key: str, value: Buffer) -> None:
        """See `zarr.abc.store.Store`."""
        with self.translated(key):
            await self._whole.set(self.full(key), value)

    @property
    def supports_deletes(self) -> bool:
        """See `zarr.abc.store.Store`."""
        return self._whole.supports_deletes

    async def delete(self, key: str) -> None:
        """See `zarr.abc.store.Store`."""
        with self.translated(key):
            await self._whole.delete(self.full(key))

    @property
    def supports_listing(self) -> bool:
        """See `zarr.abc.store.Store`."""
        return self._whole.supports_listing

    def list(self) -> AsyncIterator[str]:
        """See `zarr.abc.store.Store`."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """See `zarr.abc.store.Store`."""
        start = f"{self._key}/" if self._key else ""
        with self.translated(prefix):
            async for key in self._whole.list_prefix(start + prefix):
                if key.startswith(start) and not key.endswith("/"):  # zip archives list folders
                    yield key.removeprefix(start)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """See `zarr.abc.store.Store`."""
        with self.translated(prefix):
            async for name in self._whole.list_dir(self.full(prefix).rstrip("/")):
                yield name

    async def getsize(self, key: str) -> int:
        """See `zarr.abc.store.Store`."""
        with self.translated(key):
            return await self._whole.getsize(self.full(key))


def cut(whole: Buffer | None, part: ByteRequest) -> Buffer | None:
    """Take a part out of a whole object."""
    if whole is None:
        return None
    if isinstance(part, RangeByteRequest):
        return whole[part.start : part.end]
    if isinstance(part, SuffixByteRequest):
        return whole[max(0, len(whole) - part.suffix) :]
    return whole[part.offset :]
