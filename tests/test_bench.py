"""The benchmark script runs; a hundredth of what `probe` counts finds nothing missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def bench(*arguments: str) -> str:
    """Run a verb of this checkout and return what it prints."""
    done = subprocess.run(
        [sys.executable, "scripts/bench.py", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_CORETYPE": "Haswell"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_probe_misses_nothing_and_is_never_alarmed() -> None:
    text = bench("probe", "--fraction", "0.01", "--dry")
    assert "**0 missed**" in text and "**0 alarms**" in text
    assert text.count("| 0 |") >= 20


@pytest.mark.parametrize(
    ("verb", "sizes"),
    [
        ("kernels", ("2",)),
        ("tune", ("3",)),
        ("subset", ("72",)),
        ("generalized", ("3",)),
        ("call", ("3",)),
        ("fit", ("300",)),
    ],
)
def test_every_table_is_made(verb: str, sizes: tuple[str, ...]) -> None:
    page = ROOT / "docs" / "benchmarks.md"
    before = page.read_text()
    text = bench(verb, "--dry", "--rounds", "1", "--seconds", "0.0005", "--sizes", *sizes)
    assert text.count("|---|") and all(f"| {n} |" in text for n in sizes)
    assert page.read_text() == before and f"<!-- {verb} -->" in before
