"""The state of a search on disk: written whole or not at all, and read back to the same bits."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch


class Checkpoint:
    """A file that a search is saved to now and then.

    Parameters
    ----------
    path : path or None
        None: nothing is saved.
    every : int
        Save after so many evaluations.
    minutes : float, optional
        Or after so many minutes, if that is sooner.
    identity : what the search is of: a state of something else is refused.
    """

    def __init__(
        self, path: Any, every: int, minutes: float | None, identity: dict[str, Any]
    ) -> None:
        self._path = None if path is None else Path(path)
        self._every, self._minutes, self._identity = every, minutes, identity
        self._saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last; torch's random state is put back.

        Raises
        ------
        ValueError
            If the file is of another search.
        """
        if self._path is None or not self._path.exists():
            return None
        held: dict[str, Any] = torch.load(self._path, weights_only=True)
        other = [k for k, v in self._identity.items() if not _equal(held["identity"].get(k), v)]
        if other:
            raise ValueError(
                f"fit_global: checkpoint: {self._path} is of another fit, with another "
                f"{', '.join(other)}; remove it, or give another path"
            )
        torch.set_rng_state(held["random"])
        state: dict[str, Any] = held["state"]
        return state

    def save(self, state: dict[str, Any], count: int, *, now: bool = False) -> None:
        """Save after evaluation `count`, if it is time."""
        late = self._minutes is not None and time.monotonic() - self._saved >= 60 * self._minutes
        if self._path is None or not (now or late or count % self._every == 0):
            return
        held = {"identity": self._identity, "random": torch.get_rng_state(), "state": state}
        spare = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with spare.open("wb") as file:
            torch.save(held, file)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(self._path)
        self._saved = time.monotonic()


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (
            a.shape == b.shape
            and bool(torch.equal(a.isnan(), b.isnan()))
            and bool(torch.equal(a.nan_to_num(), b.nan_to_num()))
        )
    return type(a) is type(b) and bool(a == b)
