"""Disks that are full, read-only, or not what they were."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_cases import SERIAL, Program, finish, wait_until

from pipeline.columns import State


def mount(*arguments: str | Path) -> None:
    """Mount, or skip where this process may not."""
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB, of which the tests may fill what they like."""
    if shutil.which("mount") is None:
        pytest.skip("needs mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("cluster", [SERIAL, ("cluster=threads", "cluster.workers=2")])
def test_a_disk_that_fills_up(
    program: Program, whole: Path, disk: Path, cluster: tuple[str, ...]
) -> None:
    program.out = disk / "out.zarr"
    assert program.resume("plan.limit=4") == 0
    ballast = disk / "ballast"
    with ballast.open("wb") as file:  # all that is left but one page
        while True:
            try:
                os.write(file.fileno(), bytes(4096))
            except OSError:
                break
        file.truncate(file.tell() - 4096)
    code, stderr = program.run(*cluster)
    assert code in (1, 4), stderr
    assert "No space left on device" in stderr and "same command" in stderr
    assert 2 <= program.done < len(program.states)
    ballast.unlink()
    assert program.resume() == 0
    program.assert_equals(whole)


def test_a_disk_that_is_full_at_the_start(program: Program, disk: Path) -> None:
    program.out = disk / "out.zarr"
    with pytest.raises(OSError), (disk / "ballast").open("wb") as file:
        while True:
            os.write(file.fileno(), bytes(4096))
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert "cannot make the output" in stderr and "No space left on device" in stderr
    assert [path.name for path in disk.iterdir()] == ["ballast"]


def test_an_output_that_is_read_only(program: Program, whole: Path, disk: Path) -> None:
    program.out = disk / "out.zarr"
    assert program.resume("plan.limit=4") == 0
    mount("-o", "remount,ro", disk)
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert "Read-only file system" in stderr and str(program.out) in stderr
    program.out = disk / "other.zarr"
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert "cannot make the output" in stderr and "Read-only file system" in stderr
    mount("-o", "remount,rw", disk)
    program.out = disk / "out.zarr"
    assert program.resume() == 0
    program.assert_equals(whole)


@pytest.mark.parametrize("below", ["", "out.zarr"], ids=["itself", "its parent"])
def test_an_output_path_that_is_a_file(program: Program, tmp_path: Path, below: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    program.out = file / below if below else file
    code, stderr = program.run(*SERIAL)
    assert code == 2, stderr
    assert str(file) in stderr
    assert file.read_text() == "mine"


def test_an_output_that_is_taken_away(program: Program, whole: Path, tmp_path: Path) -> None:
    child = program.start(*SERIAL, pace=0.2)
    wait_until(lambda: program.done >= 2, child)
    away = program.out.rename(tmp_path / "away")
    code, stderr = finish(child)
    assert code == 4, stderr
    assert str(program.out) in stderr
    shutil.rmtree(program.out, ignore_errors=True)
    away.rename(program.out)
    assert (program.states == State.done).any()
    assert program.resume() == 0
    program.assert_equals(whole)
