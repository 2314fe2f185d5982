"""Storage options as text: hashable, so that a place can be, and never shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.errors import Misuse


def pack_options(options: Mapping[str, Any]) -> str:
    """Turn storage options into text; options that say nothing are left out."""
    try:
        return json.dumps({k: v for k, v in options.items() if v is not None}, sort_keys=True)
    except TypeError:
        raise Misuse(
            f"storage_options: got values that are no plain text, numbers or switches, below "
            f"{', '.join(sorted(map(str, options)))}; expected what could stand in a config file"
        ) from None


def read_options(packed: str) -> dict[str, Any]:
    """Turn text back into storage options."""
    return dict(json.loads(packed))
