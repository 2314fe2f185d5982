"""An input, an undisturbed result of it, and the program to disturb."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "pipeline"))  # for run_cases

from fault_cases import JOB, Program, write_input
from run_cases import run_here


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("faults")


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input that no test changes."""
    return write_input(tmp_path_factory.mktemp("source") / "in.zarr")


@pytest.fixture(scope="session")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out.zarr"
    assert run_here(source, f"sink.path={out}", *JOB).code == 0
    return out


@pytest.fixture
def program(source: Path, tmp_path: Path) -> Program:
    """The program, on that input, with an output of its own."""
    return Program(source, tmp_path / "out.zarr")
