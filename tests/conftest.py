"""What all tests share: where the reference data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data; named by EIGENSTREAM_SHARED, else beside the checkout."""
    folder = Path(os.environ.get("EIGENSTREAM_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no reference data: {folder} has no data/ (set EIGENSTREAM_SHARED)")
    return folder
