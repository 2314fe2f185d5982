"""Certified answers: the NIST sets, and lmfit's peak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fit_cases as cases
import numpy as np
import pytest

import kernels
from kernels import FitStatus

SETS = (
    "Misra1a", "Misra1b", "Chwirut2", "DanWood", "Gauss1", "Gauss2", "Lanczos3", "MGH17",
    "Thurber", "Kirby2", "ENSO", "Rat42", "Roszman1", "Nelson",
)  # fmt: skip


@pytest.mark.parametrize("start", ["start1", "start2"])
@pytest.mark.parametrize("name", SETS)
def test_certified_digits(shared: Path, name: str, start: str) -> None:
    data = next(d for d in cases.nist(shared) if d["name"] == name)
    model, x, y = cases.nist_problem(data)
    for method in ("lm", "adam+lm"):
        found = kernels.fit(model, x, y, np.array(data[start]), method=method, tol=1e-10)
        assert found.status == FitStatus.converged
        assert cases.digits(found.params, data["refined"]) > 8
        assert cases.digits(found.stderr, data["refined_sd"]) > 8
        assert cases.digits(found.chi2, data["refined_rss"]) > 9
        assert cases.digits(found.params, data["certified"]) > 7
        assert cases.digits(found.stderr, data["certified_sd"]) > 7


def test_both_starts_of_all_sets_with_the_defaults(shared: Path) -> None:
    for data in cases.nist(shared):
        model, x, y = cases.nist_problem(data)
        both = np.array([data["start1"], data["start2"]])
        found = kernels.fit(model, x, np.stack([y, y]), both)
        assert found.converged.all()
        for row in range(2):
            assert cases.digits(found.params[row], data["refined"]) > 6.5


@pytest.mark.parametrize("name", ["gaussian", "lorentzian", "voigt"])
def test_peak(shared: Path, name: str) -> None:
    folder = shared / "data" / "E_peaks"
    data: Any = json.loads((folder / "test_peak.dat.json").read_text())
    reference = next(f for f in data["fits"] if f["model"].removesuffix("_tied") == name)
    found = kernels.fit(name, data["x"], np.array(data["y"]))
    assert found.converged
    k = len(reference["values"])
    assert cases.digits(found.params[:k], reference["values"]) > 8
    assert cases.digits(found.stderr[:k], reference["stderr"]) > 6
    assert cases.digits(found.chi2, reference["chi2"]) > 9
    assert cases.digits(found.redchi, reference["redchi"]) > 9
    assert cases.digits(found.params[:k], reference["lmfit_values"]) > 5
    if name == "voigt":  # gamma is sigma, unless it is set free
        assert found.params[3] == found.params[2] and found.stderr[3] == found.stderr[2]
        apart = kernels.fit(name, data["x"], np.array(data["y"]), tied={})
        assert apart.converged and apart.chi2 < found.chi2
