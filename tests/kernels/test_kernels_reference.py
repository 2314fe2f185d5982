"""The reference matrices with certified eigenvalues, and measured covariances and tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
from kernels import Status


def exact_apart(found: Any, hi: Any, lo: Any) -> Any:
    """Distance to a double-double reference."""
    return np.abs((found - hi) - lo)


def test_benchmarks(shared: Path) -> None:
    """Every entry: certified values to 2 n eps of the norm, or what its `expect` says."""
    folder = shared / "data" / "D_benchmarks"
    names = json.loads((folder / "eigenvalues.json").read_text())
    matrices = np.load(folder / "matrices.npz")
    assert len(names) >= 23
    for name in names:
        a = matrices[name]
        n = a.shape[-1]
        finite = np.isfinite(a).all((-1, -2))
        for found in (kernels.eigh(a), kernels.eigvalsh(a), kernels.eigh(a, check="full")):
            assert (found.status == np.where(finite, Status.ok, Status.nonfinite)).all(), name
            assert np.isnan(found.values[~finite]).all(), name
            if f"{name}__eig_hi" not in matrices:
                continue
            hi, lo = matrices[f"{name}__eig_hi"], matrices[f"{name}__eig_lo"]
            norm = np.abs(hi).max(-1, keepdims=True)
            apart = exact_apart(found.values, hi, lo)
            assert (apart <= 2 * n * np.finfo(float).eps * norm).all(), name


def test_what_benchmarks_expect(shared: Path) -> None:
    matrices = np.load(shared / "data" / "D_benchmarks" / "matrices.npz")
    jacobi = kernels.eigh(matrices["gauss_hermite_jacobi_64"])
    moment = np.sum(np.sqrt(np.pi) * jacobi.vectors[0] ** 2 * jacobi.values**34)
    assert moment == pytest.approx(6332659870762850625 / 131072 * np.sqrt(np.pi), rel=1e-10)
    v = kernels.eigh(matrices["jz_ss_9"]).vectors
    assert np.abs(v.T @ v - np.eye(9)).max() < 1e-13
    for triangle in ("lower", "upper"):
        one = kernels.eigh(matrices["uplo_input_3"], hermitian=triangle)
        assert one.status == Status.ok
        reference = matrices[f"uplo_{triangle}_3__eig_hi"]
        assert np.abs(one.values - reference).max() < 1e-14
    strict = kernels.eigh(matrices["uplo_input_3"], hermitian="strict")
    assert strict.status == Status.not_hermitian and np.isnan(strict.values).all()


def test_nan_among_others(shared: Path) -> None:
    matrices = np.load(shared / "data" / "D_benchmarks" / "matrices.npz")
    bad = [matrices["nan_tridiag30_first"], matrices["nan_tridiag30_middle"]]
    good = np.diag(np.arange(30.0)) + np.eye(30, k=1) / 2 + np.eye(30, k=-1) / 2
    found = kernels.eigh(np.stack([good, bad[0], good, bad[1], good]))
    assert found.status.tolist() == [0, 2, 0, 2, 0]
    alone = kernels.eigh(good)
    for i in (0, 2, 4):
        assert found.vectors[i].tobytes() == alone.vectors.tobytes()


def test_covariances(shared: Path) -> None:
    for path in sorted((shared / "data" / "C_tensors").glob("cov_*.npz")):
        data = np.load(path)
        cov = data["cov"]
        found = kernels.eigh(cov, hermitian="strict")
        assert (found.status == Status.ok).all(), path.name
        if "eig_hi" in data:
            norm = np.abs(data["eig_hi"]).max(-1, keepdims=True)
            apart = exact_apart(found.values, data["eig_hi"], data["eig_lo"])
            assert (apart <= 1e-14 * norm).all(), path.name


def test_eeg_block(shared: Path) -> None:
    """Entries from 1e-28 to 1e-10: the block of one unit to the rounding of its own norm."""
    data = np.load(shared / "data" / "C_tensors" / "cov_meeg_task.npz")
    index = data["eeg_index"]
    found = kernels.eigvalsh(data["cov"][np.ix_(index, index)])
    apart = exact_apart(found.values, data["eeg_eig_hi"], data["eeg_eig_lo"])
    assert found.status == Status.ok and apart.max() <= 1e-14 * data["eeg_eig_hi"].max()


def test_tensors(shared: Path) -> None:
    folder = shared / "data" / "C_tensors"
    dti = np.load(folder / "dti_small_64D.npz")
    found = kernels.eigh(dti["tensors"], hermitian="strict")
    assert (found.status == Status.ok).all()
    assert np.abs(found.values[..., ::-1] - dti["evals_desc"]).max() < 1e-17
    # the same axis as dipy's where the largest value stands alone
    evals = dti["evals_desc"]
    alone = (evals[..., 0] - evals[..., 1]) > 0.1 * evals[..., 0]
    overlap = np.abs(np.sum(found.vectors[..., :, 2] * dti["evecs"][..., :, 0], -1))
    assert overlap[alone].min() > 1 - 1e-10
    for name in ("structure_tensor_coins", "hessian_coins"):
        data = np.load(folder / f"{name}.npz")
        rr, rc, cc = np.moveaxis(data["upper"], -1, 0)
        values = kernels.eigvalsh(np.stack([rr, rc, rc, cc], -1).reshape(*rr.shape, 2, 2)).values
        scale = np.abs(values).max()
        assert np.abs(values[..., ::-1] - data["evals_desc"]).max() < 1e-14 * scale
