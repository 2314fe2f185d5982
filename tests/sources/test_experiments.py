"""Every experiment that is shipped runs as it is, and its results pass the proof."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pipeline

CONF = Path(__file__).resolve().parents[2] / "conf" / "experiment"


@pytest.mark.parametrize("name", sorted(file.stem for file in CONF.glob("*.yaml")))
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "phonons":
        pytest.importorskip("phonopy")
    monkeypatch.chdir(tmp_path)
    tree = pipeline.run([f"+experiment={name}", "cluster=serial", "sink.path=out.zarr"])
    assert np.isin(tree.status, (0, 6)).all() and (tree.status == 0).any()
    report = pipeline.verify("out.zarr", sample=20)
    assert report.checked == 20 and not report.failed
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.zarr",
        "out.zarr.log",
        "out.zarr.yaml",
    ]
