"""The group `plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline import checks


@dataclass
class PlanConfig:
    """How the stack is cut into blocks.

    Attributes
    ----------
    block_bytes : bytes, such as 67108864 or "64 MiB", or null
        Decoded input of one block; null: chosen from the memory and the workers.
    limit : int or null
        Solve only the first matrices, in C order, for a trial; the output keeps its shape.
    """

    block_bytes: Any = None
    limit: int | None = None

    def __post_init__(self) -> None:
        self.block_bytes = checks.read_bytes("plan.block_bytes", self.block_bytes)
        checks.check_least("plan.limit", self.limit, 1)
