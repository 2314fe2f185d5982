"""The rules of the house that a machine can hold: who may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(
    p.relative_to(ROOT).as_posix()
    for top in ("pipeline", "kernels")
    for p in (ROOT / top).rglob("*.py")
)
ALLOWED = {
    "dask": ("pipeline/cluster/",),
    "distributed": ("pipeline/cluster/",),
    "hydra": ("pipeline/overrides.py", "pipeline/translation.py"),
    "omegaconf": ("pipeline/overrides.py", "pipeline/translation.py"),
    "torch": ("kernels/",),
    "obstore": ("pipeline/places/bucket.py",),
    "icechunk": ("pipeline/places/snapshot.py",),
    "fsspec": ("pipeline/places/filesystem.py",),
    "nibabel": ("pipeline/sources/nifti.py",),
    "phonopy": ("pipeline/sources/crystal.py",),
    "zarr": (
        "pipeline/places/",
        "pipeline/sources/",
        "pipeline/sink.py",
        "pipeline/shard.py",
        "pipeline/ledger.py",
        "pipeline/spectra.py",
    ),
    "xarray": ("pipeline/",),
    "scipy": ("kernels/", "pipeline/stages/"),
    "kernels": (
        "kernels/",
        "pipeline/stages/rounding.py",
        "pipeline/stages/solve.py",
        "pipeline/verbs/verify.py",
    ),
    "pipeline": ("pipeline/",),
}


def list_imports(path: Path) -> Iterator[str]:
    """List the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("file", FILES)
def test_imports_keep_to_their_rooms(file: str) -> None:
    for module in list_imports(ROOT / file):
        rooms = ALLOWED.get(module.partition(".")[0])
        assert rooms is None or file.startswith(rooms), f"{file} imports {module}"


@pytest.mark.parametrize("file", ["pipeline/plan.py", "pipeline/errors.py"])
def test_the_pure_parts_import_nothing(file: str) -> None:
    for module in list_imports(ROOT / file):
        top = module.partition(".")[0]
        assert top in sys.stdlib_module_names or module in ("pipeline.errors", "pipeline.callable")


@pytest.mark.parametrize("file", [f for f in FILES if "/stages/" in f])
def test_stages_know_no_runner(file: str) -> None:
    for module in list_imports(ROOT / file):
        assert not module.startswith(("pipeline.run", "pipeline.cluster", "pipeline.sink"))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import kernels", {"dask", "zarr", "xarray", "hydra"}),
        ("import pipeline", {"torch", "dask", "zarr", "xarray", "hydra"}),
        ("import pipeline.config", {"torch", "dask", "zarr", "xarray", "hydra"}),
        ("import pipeline.plan", {"torch", "dask", "zarr", "xarray", "hydra"}),
    ],
)
def test_imports_stay_light(statement: str, absent: set[str]) -> None:
    code = f"{statement}; import sys; print(*(m for m in {sorted(absent)} if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
