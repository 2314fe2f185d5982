"""A store whose answers are looked at: a chunk that disappeared, or was cut short, is no chunk."""

from __future__ import annotations

from collections.abc import Callable

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore


class WatchedStore(LocalStore):
    """A local store that shows what it found, None for nothing, to `watch`, which may raise.

    zarr-python reads a file that it does not find as fill values, also when the disk was
    unmounted meanwhile; a storage error must never pass for missing data.
    """

    watch: Callable[[str, Buffer | None], None] | None = None

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        found = await super().get(key, prototype, byte_range)
        if self.watch is not None:
            self.watch(key, found)
        return found
