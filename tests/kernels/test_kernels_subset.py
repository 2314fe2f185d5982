"""A few pairs: right, with the right index, the same bits everywhere, and repaired if not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels import Status, plain_pairs, primitives, subset
from kernels.residual import Precision, probe_vector

SIZES = (24, 70)
CASES = [cases.Case(f, n, d) for f in cases.FAMILIES for n in SIZES for d in cases.DTYPES] + [
    cases.Case(cases.random, 33, d, s)
    for d in cases.DTYPES
    for s in cases.SCALES[np.finfo(d).dtype.name]
]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rule says, a part is found for itself."""
    monkeypatch.setattr(subset, "is_few", lambda n, pairs, dtype, vectors: vectors)


def find(a: Any, lo: int, m: int, isa: str = "") -> list[Any]:
    """The primitive itself: values, vectors, form, power, defect, failed."""
    count, n = a.shape[:2]
    x, eps = probe_vector(n, a.dtype.kind == "c"), Precision.of(a.dtype).eps
    out: list[Any] = [
        np.empty((count, m), a.real.dtype),
        np.empty((count, n, m), a.dtype),
        np.zeros((count, 2 * n)),
        np.zeros(count, np.int32),
        np.zeros(count),
        np.zeros(count, bool),
    ]
    primitives.few(a, 0, np.zeros(count, bool), lo, x, eps, *out, isa)
    return out


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pairs(case: cases.Case) -> None:
    """Against numpy's values and by the definitions, at both ends and in the middle."""
    a, n = case.build(), case.n
    h, e = cases.normalised(a)
    reference = np.linalg.eigvalsh(h)
    coarse = cases.scaled(np.full(len(a), float(np.finfo(case.real).smallest_subnormal)), e)
    slack = n * np.maximum(case.eps, coarse)[:, None]
    for lo, hi in ((0, 1), (0, n // 10), (n // 2, n // 2 + 5), (n - n // 4, n)):
        found = kernels.eigh(a, subset=(lo, hi), check="full")
        assert (found.status == Status.ok).all() and found.residual.max() < 10
        assert found.vectors.shape == (len(a), n, hi - lo) and found.vectors.flags.c_contiguous
        assert (np.diff(found.values) >= 0).all()
        w = cases.scaled(found.values.astype(float), e)
        assert (np.abs(w - reference[:, lo:hi]) <= 5 * slack).all()
        v = found.vectors.astype(h.dtype)
        assert (np.abs(h @ v - v * w[:, None, :]).max(-1) <= 10 * slack).all()
        skew = v.conj().swapaxes(-1, -2) @ v - np.eye(hi - lo)
        assert np.abs(skew).max() < 10 * n * case.eps


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_same_projector_as_the_whole(dtype: str) -> None:
    """The top third of a projector: all of its ones, as a subspace."""
    case = cases.Case(cases.repeated, 66, dtype)
    a = case.build()
    top = kernels.eigh(a, subset=(-22, None)).vectors
    projector = top @ top.conj().swapaxes(-1, -2)
    assert np.abs(projector - a * np.sqrt(22)).max() < 10 * 66 * case.eps


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 5, 24, 37, 64])
def test_every_instruction_set_gives_the_same_bits(n: int, dtype: str) -> None:
    a = np.concatenate([cases.Case(f, n, dtype).build() for f in cases.FAMILIES])
    m = max(1, n // 3)
    sets = primitives.lanes_sets()
    found = {tuple(x.tobytes() for x in find(a, n - m, m, isa)) for isa in ("", *sets)}
    assert len(found) == 1


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_bits_depend_on_the_matrix_alone(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a = cases.hermitian(cases.gaussian(rng, (40, 80, 80), dtype.startswith("c"))).astype(dtype)
    order = rng.permutation(40)
    whole = kernels.eigh(a, subset=(0, 8), threads=1)
    for other in (
        kernels.eigh(a[order], subset=(0, 8), threads=3),
        kernels.eigh(np.asfortranarray(a)[order], subset=(0, 8), threads=2),
        kernels.eigh(a[order], subset=(0, 8), hermitian="upper"),
        kernels.eigh(a[order], subset=(0, 8), hermitian="strict", driver="lapack"),
    ):
        assert cases.bits(other) == cases.bits([x[order] for x in whole])
    assert cases.bits(kernels.eigh(a[7], subset=(0, 8))) == cases.bits([x[7] for x in whole])


def shifted(by: int) -> Callable[..., None]:
    """The search answers with honest pairs of other indices, `by` further up."""
    honest = primitives.few

    def few(a: Any, triangle: int, skip: Any, lo: int, *rest: Any) -> None:
        honest(a, triangle, skip, lo + by, *rest)

    return few


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize(("lo", "hi", "by"), [(0, 2, 1), (1, 3, -1), (10, 13, 1), (38, 39, 1)])
def test_a_wrong_index_is_caught(
    lo: int, hi: int, by: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs [1, 3) given for [0, 2): each of them is an honest pair, and none passes."""
    a = cases.Case(cases.random, 40, dtype).build()
    right = kernels.eigh(a)
    monkeypatch.setattr(primitives, "few", shifted(by))
    alone = kernels.eigh(a, subset=(lo, hi), repair=False)
    assert (alone.status == Status.failed).all() and np.isinf(alone.residual).all()
    assert np.isnan(alone.values).all() and np.isnan(alone.vectors).all()
    mended = kernels.eigh(a, subset=(lo, hi))
    assert (mended.status == Status.repaired).all() and mended.residual.max() < 15
    assert mended.values.tobytes() == np.ascontiguousarray(right.values[:, lo:hi]).tobytes()
    assert mended.vectors.tobytes() == np.ascontiguousarray(right.vectors[..., lo:hi]).tobytes()


@pytest.mark.usefixtures("always")
def test_a_cluster_may_be_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues equal to within the tolerance have no order that could be wrong."""
    a = cases.Case(cases.repeated, 30, "float64").build()
    monkeypatch.setattr(primitives, "few", shifted(3))
    assert (kernels.eigh(a, subset=(2, 5)).status == Status.ok).all()  # 20 zeros, then 10 ones
    assert (kernels.eigh(a, subset=(17, 18)).status == Status.repaired).all()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_errors_of_every_kind_are_caught(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = cases.Case(cases.random, 40, dtype).build()
    honest = primitives.few

    def spoil(change: Callable[..., None]) -> None:
        def few(*arguments: Any) -> None:
            honest(*arguments)
            change(*arguments[6:])

        monkeypatch.setattr(primitives, "few", few)

    def value(w: Any, *_: Any) -> None:
        w[1, 0] += 1e-3

    def vector(w: Any, v: Any, *_: Any) -> None:
        v[1, 3, 1] += 1e-3

    def form(w: Any, v: Any, f: Any, power: Any, defect: Any, failed: Any) -> None:
        defect[1] = 1e6

    def lost(w: Any, v: Any, f: Any, power: Any, defect: Any, failed: Any) -> None:
        failed[1] = True

    for change in (value, vector, form, lost):
        spoil(change)
        found = kernels.eigh(a, subset=(0, 3))
        assert found.status.tolist() == [0, Status.repaired, 0] and found.residual.max() < 15
        assert kernels.eigh(a, subset=(0, 3), repair=False).status.tolist() == [0, 5, 0]
    assert kernels.eigh(a, subset=(0, 3), check="off").status.tolist() == [9, 9, 9]


@pytest.mark.usefixtures("always")
def test_bad_matrices_are_entries_and_neighbours_are_untouched() -> None:
    a = np.concatenate([cases.Case(cases.random, 40, "complex128").build()] * 2)
    clean = kernels.eigh(a, subset=(0, 4), hermitian="strict")
    a[1, 3, 2] = np.nan
    a[4, 0, 39] += 1
    found = kernels.eigh(a, subset=(0, 4), hermitian="strict")
    assert found.status.tolist() == [0, 2, 0, 0, 3, 0]
    good = found.status == 0
    assert cases.bits([x[good] for x in found]) == cases.bits([x[good] for x in clean])
    assert np.isnan(found.values[~good]).all() and np.isnan(found.vectors[~good]).all()
    tensor = kernels.eigh(torch.from_numpy(a), subset=(0, 4), check="off")
    assert tensor.status.tolist() == [9, 2, 9, 9, 9, 9] and tensor.residual.isnan().all()


def test_the_rule() -> None:
    assert subset.is_few(64, 6, "float64", True) and subset.is_few(128, 32, "complex64", True)
    assert not subset.is_few(64, 6, "float64", False) and not subset.is_few(16, 1, "float32", True)
    assert not subset.is_few(128, 33, "float64", True)
    a = cases.Case(cases.random, 100, "float64").build()
    values = kernels.eigvalsh(a, subset=(0, 3)).values
    assert values.tobytes() == np.ascontiguousarray(kernels.eigvalsh(a).values[:, :3]).tobytes()


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_verify_looks_at_the_index_if_asked(dtype: str) -> None:
    a = cases.Case(cases.random, 12, dtype).build()
    w, v = kernels.eigh(a)[:2]
    part = w[:, 3:6], v[:, :, 3:6]
    assert (kernels.verify(a, *part, subset=(3, 6)) < 10).all()
    assert np.isinf(kernels.verify(a, *part, subset=(2, 5))).all()
    assert (kernels.verify(a, *part) < 10).all()
    assert (kernels.verify(a, w, subset=(0, None)) < 10).all()
    with pytest.raises(ValueError, match="3 values for subset"):
        kernels.verify(a, *part, subset=(3, 7))


def test_counts_of_a_known_matrix() -> None:
    """The second difference matrix: eigenvalues 2 - 2 cos(k pi / (n + 1))."""
    n = 50
    form = np.concatenate([np.full(n, 2.0), np.full(n - 1, 1.0), [0.0]])[None]
    exact = 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
    for places in (primitives.places, plain_pairs.places):
        for lo, shift, right in ((0, 0, True), (7, 0, True), (7, 1, False), (7, -1, False)):
            out, power = np.empty(1, bool), np.zeros(1, np.int32)
            values = exact[None, lo + shift : lo + shift + 3].copy()
            places(form, power, values, lo, 1e-13, 0.0, out)
            assert out[0] == right


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_plain_fallback(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = cases.Case(cases.random, 30, dtype).build()
    a[1, 2, 1] = np.inf
    compiled = kernels.eigh(a, subset=(4, 8))
    for name in ("few", "places"):
        monkeypatch.setattr(primitives, name, getattr(plain_pairs, name))
    found = kernels.eigh(a, subset=(4, 8))
    assert found.status.tolist() == compiled.status.tolist() == [0, 2, 0]
    good = [0, 2]
    assert np.abs(found.values[good] - compiled.values[good]).max() < 30 * np.finfo(dtype).eps
    monkeypatch.setattr(primitives, "few", shifted(1))
    assert (kernels.eigh(a[good], subset=(4, 8), repair=False).status == Status.failed).all()
