"""A foreign package `kernels` is noticed, named, and not imported."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.distribution import MARK, check_kernels

ROOT = Path(__file__).resolve().parents[2]
NAME = "foreign_kernels_for_a_test"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def put_package(site: Path, text: str) -> Path:
    path = site / NAME / "__init__.py"
    path.parent.mkdir()
    path.write_text(text)
    return path


def put_distribution(site: Path, name: str) -> None:
    info = site / f"{name}-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    (info / "RECORD").write_text(f"{NAME}/__init__.py,,\n{info.name}/METADATA,,\n")


def test_ours_passes(site: Path) -> None:
    put_package(site, f"{MARK}\nraise RuntimeError('imported')\n")
    check_kernels(NAME)
    assert NAME not in sys.modules


def test_the_real_one_passes_quickly() -> None:
    check_kernels()
    begun = time.process_time()
    for _ in range(10):
        check_kernels()
    assert time.process_time() - begun < 10 * 0.02


def test_another_distribution_is_named(site: Path) -> None:
    path = put_package(site, "raise RuntimeError('imported')\n")
    put_distribution(site, "other-kernels")
    with pytest.raises(ImportError) as caught:
        check_kernels(NAME)
    message = str(caught.value)
    assert "other-kernels 9.9" in message and str(path.parent) in message
    assert "pip uninstall other-kernels" in message
    assert "pip install --force-reinstall --no-deps eigenstream" in message
    assert NAME not in sys.modules


def test_our_own_record_is_no_culprit(site: Path) -> None:
    put_package(site, "")
    put_distribution(site, "eigenstream")
    with pytest.raises(ImportError, match="hides"):
        check_kernels(NAME)


def test_a_folder_in_the_way_is_named(site: Path) -> None:
    path = put_package(site, "")
    with pytest.raises(ImportError, match="rename or move it") as caught:
        check_kernels(NAME)
    assert str(path) in str(caught.value)


def test_nothing_there(site: Path) -> None:
    with pytest.raises(ImportError, match="found nothing"):
        check_kernels(NAME)
    (site / NAME).mkdir()  # without __init__.py: a namespace
    with pytest.raises(ImportError, match="found only the folder"):
        check_kernels(NAME)


def test_importing_the_program_notices(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").write_text("")
    # an editable install puts a finder of its own before the path
    code = (
        "import sys; from importlib.machinery import PathFinder\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if f is PathFinder or 'import' in repr(f)]\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import pipeline"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert str(tmp_path / "kernels") in done.stderr
