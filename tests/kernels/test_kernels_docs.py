"""The examples of docs/kernels.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kernels import Status

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"


def test_examples() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_every_status_is_in_the_table() -> None:
    text = PAGE.read_text()
    table = {int(v): name for v, name in re.findall(r"^\| (\d) \| `(\w+)` \|", text, re.MULTILINE)}
    # the others are the pipeline's: no matrix gets them here
    elsewhere = {Status.missing, Status.masked, Status.not_run}
    assert table == {int(s): s.name for s in Status if s not in elsewhere}
