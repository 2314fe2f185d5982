"""What all tests share: where the reference data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are shared and noisy: a slow example is no failure. In CI the examples are always the
# same, so that a change is judged by itself; elsewhere they are new at every run.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data; named by EIGENSTREAM_SHARED, else beside the checkout."""
    folder = Path(os.environ.get("EIGENSTREAM_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no reference data: {folder} has no data/ (set EIGENSTREAM_SHARED)")
    return folder
