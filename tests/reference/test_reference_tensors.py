"""Covariances, diffusion tensors and image tensors against independent eigenvalues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from reference_store import (
    EPS,
    check_all_ok,
    measure_pairs,
    measure_values,
    run_stack,
    write_stack,
)

COVARIANCES = {
    "cov_iris": "cm^2",
    "cov_wine": "1",
    "cov_elnino_sst": "degC^2",
    "cov_eeg_biosemi": "uV^2",
}
# of the largest eigenvalue; the reference is exact, numpy is at 1.1e-15 (64 channels)
TOLERANCE = 2e-15
ALIKE = 1e-17  # mm^2/s: two LAPACKs on tensors of 4e-3 mm^2/s


def read_tensors(shared: Path, name: str) -> dict[str, Any]:
    with np.load(shared / "data" / "C_tensors" / f"{name}.npz") as data:
        return dict(data)


def check_pairs(matrices: NDArray[Any], tree: xr.DataTree) -> None:
    """Recompute residual and orthogonality."""
    check_all_ok(tree)
    worst = measure_pairs(matrices, tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy())
    assert max(worst) < 4 * matrices.shape[-1] * EPS


@pytest.mark.parametrize("vectors", [False, True], ids=["values", "vectors"])
@pytest.mark.parametrize("name", COVARIANCES)
def test_covariances(name: str, vectors: bool, shared: Path, tmp_path: Path) -> None:
    data = read_tensors(shared, name)
    matrices = data["cov"]
    store = write_stack(
        tmp_path / "in.zarr",
        "covariance",
        matrices,
        ("window", "channel", "channel_other"),
        units=COVARIANCES[name],
        coords={"window": data["labels"].astype(object)},
        chunks=(1, *matrices.shape[1:]),
        zarr_format=2,
    )
    tree = run_stack(store, solve={"vectors": vectors}, sink={"pair_dim": "mode"})
    check_all_ok(tree)
    assert tree.window.to_numpy().tolist() == data["labels"].tolist()
    assert tree.eigenvalues.attrs["units"] == COVARIANCES[name]
    values = tree.eigenvalues.to_numpy()
    assert measure_values(values, data["eig_hi"], data["eig_lo"]) < TOLERANCE
    if vectors:
        check_pairs(matrices, tree)


@pytest.mark.parametrize("block", ["all", "eeg"])
def test_one_covariance_of_mixed_units(block: str, shared: Path, tmp_path: Path) -> None:
    """Entries from 1e-28 to 1e-10, one matrix without batch dimensions, rank deficient."""
    data = read_tensors(shared, "cov_meeg_task")
    keep = data["eeg_index"] if block == "eeg" else np.arange(366)
    high, low = (data[f"eeg_eig_{p}" if block == "eeg" else f"eig_{p}"] for p in ("hi", "lo"))
    matrix = data["cov"][np.ix_(keep, keep)]
    store = write_stack(
        tmp_path / "in.zarr",
        "noise_covariance",
        matrix,
        ("channel", "channel_other"),
        units="mixed",
        coords={"channel": data["channels"][keep].astype(object)},
    )
    tree = run_stack(store, solve={"vectors": True}, sink={"pair_dim": "mode"})
    assert tree.eigenvectors.dims == ("channel", "mode")
    assert tree.channel.to_numpy().tolist() == data["channels"][keep].tolist()
    check_pairs(matrix, tree)
    assert measure_values(tree.eigenvalues.to_numpy(), high, low) < TOLERANCE


def write_diffusion(path: Path, tensors: NDArray[Any], **others: Any) -> Path:
    """Write one variable `tensor` in slabs of x, and others over the voxels."""
    store = write_stack(
        path,
        "tensor",
        tensors,
        ("x", "y", "z", "row", "column"),
        units="mm^2/s",
        chunks=(2, 10, 10, 3, 3),
    )
    voxels = {name: (("x", "y", "z"), values) for name, values in others.items()}
    xr.Dataset(voxels).to_zarr(store, mode="a", zarr_format=3, consolidated=False)
    return store


DIFFUSION = {"solve": {"vectors": True, "order": "descending"}, "sink": {"pair_dim": "mode"}}


@pytest.mark.parametrize("method", ["wls", "ols"])
def test_diffusion_tensors(method: str, shared: Path, tmp_path: Path) -> None:
    """Largest first, as dipy gives them, and its principal directions where they are one."""
    data = read_tensors(shared, "dti_small_64D")
    suffix = {"wls": "", "ols": "_ols"}[method]
    tensors, reference = data[f"tensors{suffix}"], data[f"evals{suffix}_desc"]
    store = write_diffusion(tmp_path / "in.zarr", tensors)
    tree = run_stack(store, cluster="threads", **DIFFUSION)
    check_pairs(tensors, tree)
    assert tree.mode.to_numpy().tolist() == [2, 1, 0]
    assert np.abs(tree.eigenvalues.to_numpy() - reference).max() < ALIKE
    if method == "wls":
        alone = reference[..., 0] - reference[..., 1] > 1e-4 * reference[..., 0]
        dipy, ours = data["evecs"][..., 0], tree.eigenvectors.to_numpy()[..., 0]
        overlap = np.abs((dipy * ours).sum(-1))[alone]
        assert alone.sum() > 900
        np.testing.assert_allclose(overlap, 1, atol=1e-12)


def test_diffusion_in_a_mask(shared: Path, tmp_path: Path) -> None:
    """What the mask leaves out is neither solved nor bad, whatever it holds."""
    data = read_tensors(shared, "dti_small_64D")
    inside = data["data"][..., 0] > np.median(data["data"][..., 0])
    inside[:2] = False  # whole chunks
    tensors = np.where(inside[..., None, None], data["tensors"], np.nan)
    store = write_diffusion(tmp_path / "in.zarr", tensors, brain=inside)
    assert not (store / "tensor" / "c" / "0").exists()  # absent, and nobody asks for it
    tree = run_stack(store, source={"variable": "tensor", "mask": "brain"}, **DIFFUSION)
    values = tree.eigenvalues.to_numpy()
    assert 100 < inside.sum() < 900
    np.testing.assert_array_equal(tree.status, np.where(inside, 0, 6))
    assert np.isnan(values[~inside]).all()
    assert np.isnan(tree.eigenvectors.to_numpy()[~inside]).all()
    assert np.abs(values - data["evals_desc"])[inside].max() < ALIKE


def test_diffusion_with_a_background_of_zeros(shared: Path, tmp_path: Path) -> None:
    """Chunks of zeros are absent; `fill` reads them, and the values there are exactly 0."""
    data = read_tensors(shared, "dti_small_64D")
    inside = np.zeros((10, 10, 10), bool)
    inside[4:9, 3:7] = True
    tensors = np.where(inside[..., None, None], data["tensors"], 0.0)
    stack = xr.Dataset({"tensor": (("x", "y", "z", "row", "column"), tensors)})
    store = tmp_path / "in.zarr"
    stack.to_zarr(
        store,
        encoding={"tensor": {"chunks": (2, 10, 10, 3, 3), "fill_value": 0.0}},
        zarr_format=3,
        consolidated=False,
        write_empty_chunks=False,
    )
    assert len(list((store / "tensor" / "c").iterdir())) == 3
    tree = run_stack(store, source={"missing": "fill"}, **DIFFUSION)
    check_pairs(tensors, tree)
    values = tree.eigenvalues.to_numpy()
    assert (values[~inside] == 0).all()
    assert np.abs(values - data["evals_desc"])[inside].max() < ALIKE


@pytest.mark.parametrize("name", ["structure_tensor_coins", "hessian_coins"])
@pytest.mark.parametrize("triangle", ["upper", "lower"])
def test_image_tensors(name: str, triangle: str, shared: Path, tmp_path: Path) -> None:
    """One triangle is filled, the other is NaN and never looked at; against a closed form."""
    data = read_tensors(shared, name)
    tensors = np.full((96, 96, 2, 2), np.nan)
    for i, at in enumerate([(0, 0), (0, 1), (1, 1)]):
        tensors[(..., *(at if triangle == "upper" else at[::-1]))] = data["upper"][..., i]
    store = write_stack(
        tmp_path / "in.zarr",
        "tensor",
        tensors,
        ("row", "column", "i", "j"),
        units="1",
        chunks=(40, 40, 2, 2),
    )
    tree = run_stack(store, cluster="threads", solve={"hermitian": triangle, "order": "descending"})
    check_all_ok(tree)
    error = measure_values(tree.eigenvalues.to_numpy(), data["evals_desc"], np.float64(0))
    assert error < 4 * 2 * EPS
    if name == "hessian_coins":
        assert (tree.eigenvalues[..., 0] > 0).any() and (tree.eigenvalues[..., 1] < 0).any()
