"""`import pipeline` as a library: functions that are modules, loaded on demand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import pipeline
from pipeline import api
from pipeline.callable import make_callable
from pipeline.config import Config
from pipeline.errors import Misuse

ROOT = Path(__file__).resolve().parents[2]


def test_run_composes_runs_and_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run(config: Config) -> SimpleNamespace:
        seen.append(config)
        return SimpleNamespace(path=Path("/out.zarr"), code=0)

    module = ModuleType("pipeline.run")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.run", module)
    monkeypatch.setattr(api, "open_tree", lambda path: ("opened", path))
    got: Any = api.run(["spectrum=dos"], source={"path": "/a, b.zarr"}, cluster="serial")
    assert got == ("opened", Path("/out.zarr"))
    assert (seen[0].source.path, seen[0].cluster.kind) == ("/a, b.zarr", "serial")
    with pytest.raises(ValueError, match=r"did you mean solve\.order"):
        api.run(source={"path": "/x"}, solve={"ordr": 1})


def test_a_module_becomes_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("pipeline.plan")
    monkeypatch.setitem(sys.modules, "pipeline.plan", module)
    monkeypatch.setattr(api, "plan", lambda *a, **k: (a, k))
    make_callable("pipeline.plan")
    assert module(["x=1"], solve={}) == ((["x=1"],), {"solve": {}})  # type: ignore[operator]


def test_names_are_there_before_and_after_their_modules_are_loaded() -> None:
    code = (
        "import pipeline\n"
        "assert callable(pipeline.open) and callable(pipeline.verify)\n"
        "before = pipeline.run, pipeline.plan\n"
        "import pipeline.run, pipeline.plan\n"
        "assert before == (pipeline.run, pipeline.plan)\n"
        "assert all(map(callable, before)) and callable(pipeline.run.run)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_open_refuses_what_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not exist"):
        pipeline.open(tmp_path / "nothing")
    with pytest.raises(Misuse, match="no output of eigenstream"):
        pipeline.open(tmp_path)


def test_the_package_lists_its_names() -> None:
    assert {"run", "plan", "verify", "open", "__version__"} <= set(dir(pipeline))
    assert isinstance(pipeline.__version__, str)
    with pytest.raises(AttributeError, match="nonsense"):
        pipeline.nonsense  # noqa: B018
