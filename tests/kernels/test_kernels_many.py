"""Matrices of mixed sizes in one call."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels


def mixed() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(3, 3), (5, 5), (2, 3, 3), (1, 1), (0, 4, 4), (2, 2, 5, 5), (3, 3)]
    entries: list[Any] = []
    for i, shape in enumerate(shapes * 2):
        a = cases.hermitian(cases.gaussian(rng, shape, i % 3 == 0))
        a = a.astype("c8") if i == 6 else a
        entries.append(torch.from_numpy(a) if i % 2 else a)
    entries[0][0, 0] = np.nan
    return entries


@pytest.mark.parametrize("vectors", [True, False])
def test_as_one_by_one_and_in_order(vectors: bool) -> None:
    entries = mixed()
    found = kernels.eigh_many(entries, vectors=vectors)
    assert len(found) == len(entries)
    for a, eigen in zip(entries, found, strict=True):
        alone = kernels.eigh(a, vectors=vectors)
        assert cases.bits(np.asarray(x) for x in eigen if x is not None) == cases.bits(
            np.asarray(x) for x in alone if x is not None
        )
        for x, y in zip(eigen, alone, strict=True):
            assert type(x) is type(y) and (x is None or (x.shape == y.shape and x.dtype == y.dtype))
    assert found[0].status == kernels.Status.nonfinite and (found[6].status == 0).all()


def test_iterables_gradients_and_nothing() -> None:
    assert kernels.eigh_many([]) == []
    a = [torch.diag(torch.arange(1.0, n + 1)).requires_grad_() for n in (2, 3, 2)]
    found = kernels.eigh_many(iter(a), subset=(-1, None))
    sum(e.values.sum() for e in found).backward()
    for x in a:
        assert x.grad is not None and x.grad[-1, -1] == 1 and x.grad.abs().sum() == 1


def test_misuse_names_the_entry() -> None:
    for wrong in (np.zeros((2, 3)), np.zeros((2, 2), int), torch.zeros(3), "matrix"):
        with pytest.raises(ValueError, match="eigh_many: entry 1"):
            kernels.eigh_many([np.eye(2), wrong])
    with pytest.raises(ValueError, match="driver"):
        kernels.eigh_many([np.eye(2)], driver="magma")
