"""The examples of docs/fits.md run, and its tables are whole."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import kernels

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "fits.md"


def test_examples() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_tables_are_whole() -> None:
    text = PAGE.read_text()
    table = {int(v): n for v, n in re.findall(r"^\| (\d) \| `(\w+)` \|", text, re.MULTILINE)}
    assert table == {int(s): s.name for s in kernels.FitStatus}
    for name in inspect.signature(kernels.fit).parameters:
        assert name == "model" or f"`{name}" in text, name
    for name in kernels.Fit._fields:
        assert f"`{name}`" in text, name
    for name in kernels.models.NAMES:
        assert f"`{name}`" in text or name.startswith("polynomial"), name
