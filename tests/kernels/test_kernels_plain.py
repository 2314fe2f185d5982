"""The fallback in torch operations gives the bits of the compiled kernels."""

from __future__ import annotations

import kernels_cases as cases
import numpy as np
import pytest

import kernels
from kernels import plain, primitives

SOME = [c for c in cases.CASES if c.n in (1, 2, 5, 17, 33) and c.family is not cases.diagonal]


def use_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gauge", "residual", "scan"):
        monkeypatch.setattr(primitives, name, getattr(plain, name))


@pytest.mark.parametrize("case", SOME, ids=str)
def test_same_bits(case: cases.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    a = case.build()
    a[1, 0, -1] *= 1 + 4 * np.finfo(case.real).eps  # a defect below the tolerance
    a[2] *= 2

    def everything() -> list[bytes]:
        found = kernels.eigh(a, hermitian="strict")
        return [
            *cases.bits(found),
            *cases.bits(kernels.eigh(a, hermitian="upper", check="full")),
            *cases.bits(kernels.eigh(a, vectors=False)),
            *cases.bits([kernels.fix_gauge(found.vectors)]),
            *cases.bits([kernels.verify(a, found.values[::-1], found.vectors)]),
            *cases.bits([kernels.verify(a, found.values[:, ::-1])]),
            *cases.bits(kernels.eigh(a, hermitian="strict", hermitian_tol=0.0)),
        ]

    compiled = everything()
    use_plain(monkeypatch)
    assert everything() == compiled


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_solver(dtype: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a = cases.Case(cases.random, 5, dtype, scale).build()
    a[1] = np.nan
    monkeypatch.setattr("kernels.piece.THRESHOLD", -1.0)  # nothing passes: the repair runs too
    compiled = kernels.eigh(a)
    monkeypatch.setattr(primitives, "lapack", plain.lapack)
    assert (kernels.eigh(a).status == compiled.status).all()
    monkeypatch.setattr("kernels.piece.THRESHOLD", 50.0)
    found = kernels.eigh(a)
    assert found.status.tolist() == [0, 2, 0] and np.isnan(found.values[1]).all()
    reference = np.linalg.eigvalsh(a[0].astype(np.result_type(dtype, "f8")))
    unit = 5 * np.finfo(dtype).eps * np.abs(reference).max()
    assert np.abs(found.values[0] - reference).max() < 5 * unit
