"""A store that notices when a chunk disappears."""

from __future__ import annotations

from collections.abc import Callable

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore


class WatchedStore(LocalStore):
    """A local store in which a chunk that was there at the start may not be gone later.

    zarr-python reads a file that it does not find as fill values, also when the disk was
    unmounted meanwhile; a storage error must never pass for missing data.
    """

    expects: Callable[[str], bool] | None = None

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        found = await super().get(key, prototype, byte_range)
        if found is None and self.expects is not None and self.expects(key):
            raise FileNotFoundError(f"chunk {key} was there when the run was planned and is gone")
        return found
