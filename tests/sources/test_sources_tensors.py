"""Packed tensors: every order against whole matrices, NIfTI images, masks; what is refused."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from computed_cases import refuse, solve
from numpy.typing import NDArray
from source_cases import read_all, whole

import pipeline
from pipeline.choices import Kind
from pipeline.errors import Misuse
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source

nibabel = pytest.importorskip("nibabel")
TENSORS: dict[str, Any] = {"kind": Kind.tensors}
# position of each packed element, written down independently of the program
PLACES = {
    "dipy": [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)],
    "fsl": [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)],
    "mrtrix": [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)],
    "voigt-stress": [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)],
}
PLACES["voigt-strain"] = PLACES["mandel"] = PLACES["voigt-stress"]
FACTORS = {"voigt-strain": 2.0, "mandel": np.sqrt(2.0)}


def pack(tensors: NDArray[Any], packing: str) -> NDArray[Any]:
    """Pack whole tensors as a program would."""
    parts = [
        tensors[..., i, j] * (FACTORS.get(packing, 1.0) if i != j else 1.0)
        for i, j in PLACES[packing]
    ]
    return np.stack(parts, axis=-1).astype(tensors.dtype)


@pytest.fixture(scope="module")
def diffusion(shared: Path) -> dict[str, Any]:
    with np.load(shared / "data" / "C_tensors" / "dti_small_64D.npz") as data:
        found = dict(data)
    upper = np.triu(found["tensors"])  # as stored they are symmetric but for the last bit
    found["tensors"] = upper + np.triu(upper, 1).swapaxes(-1, -2)
    return found


@pytest.mark.parametrize("packing", PLACES)
def test_orders(tmp_path: Path, diffusion: dict[str, Any], packing: str) -> None:
    """Against dipy's eigenvalues; matrices are the whole ones to the last bit but for mandel."""
    np.save(tmp_path / "d.npy", pack(diffusion["tensors"], packing))
    source = open_source(SourceConfig(path=str(tmp_path / "d.npy"), packing=packing, **TENSORS))
    assert (source.shape, source.n, source.row_dim) == ((10, 10, 10), 3, "component")
    assert source.coords["component"].to_numpy().tolist() == ["x", "y", "z"]
    matrices = read_all(source)
    error = np.abs(matrices - diffusion["tensors"]).max()
    assert error == 0 if packing != "mandel" else error < 1e-18
    assert np.abs(solve(matrices)[..., ::-1] - diffusion["evals_desc"]).max() < 1e-17


def test_no_two_orders_agree(tmp_path: Path, diffusion: dict[str, Any]) -> None:
    """Each order read as another gives other eigenvectors, which is why there is no default."""
    seen = []
    for packing in ("dipy", "fsl", "mrtrix", "voigt-stress"):
        np.save(tmp_path / "d.npy", pack(diffusion["tensors"], "dipy"))
        keys = {**TENSORS, "packing": packing}
        source = open_source(SourceConfig(path=str(tmp_path / "d.npy"), **keys))
        assert source.identity() not in [s.identity() for s in seen]
        assert not any(np.array_equal(read_all(source), read_all(s)) for s in seen)
        seen.append(source)
    refuse(tmp_path / "d.npy", "source.packing", "does not say", "mrtrix", **TENSORS)


def test_zarr_with_mask_and_selection(tmp_path: Path, diffusion: dict[str, Any]) -> None:
    """Volumes in chunks of their own, labels, a mask, an absent chunk, scaled integers."""
    group = zarr.create_group(str(tmp_path / "in.zarr"))
    packed = pack(diffusion["tensors"], "mrtrix")
    array = group.create_array(
        "dt",
        shape=packed.shape,
        dtype="f8",
        chunks=(5, 10, 10, 2),
        dimension_names=[*"xyz", "volume"],
    )
    array[...] = packed
    array.attrs.update({"units": "mm^2/s", "packing": "mrtrix"})
    group.create_array("x", shape=(10,), dtype="f8", dimension_names=["x"])[...] = np.arange(10) * 2
    inside = diffusion["data"][..., 0] > np.median(diffusion["data"][..., 0])
    group.create_array("brain", shape=(10,) * 3, dtype="bool", dimension_names=[*"xyz"])[...] = (
        inside
    )
    tree = pipeline.run(
        ["source=tensors", "cluster=serial", "solve.vectors=true"],
        source={"path": str(tmp_path / "in.zarr"), "mask": "brain", "isel": {"z": "2:9"}},
        sink={"path": str(tmp_path / "out.zarr")},
        plan={"block_bytes": 20_000},
    )
    assert tree.eigenvalues.dims == (*"xyz", "mode") and tree.mode.to_numpy().tolist() == [2, 1, 0]
    assert tree.eigenvectors.dims == (*"xyz", "component", "mode")
    assert tree.component.to_numpy().tolist() == ["x", "y", "z"]
    assert tree.attrs["tensor_packing"] == "mrtrix" and "scanner" in tree.attrs["tensor_frame"]
    assert tree.x.to_numpy().tolist() == (np.arange(10) * 2).tolist()
    assert tree.eigenvalues.attrs["units"] == "mm^2/s"
    part = inside[:, :, 2:9]
    np.testing.assert_array_equal(tree.status, np.where(part, 0, 6))
    reference = diffusion["evals_desc"][:, :, 2:9]
    assert np.abs(tree.eigenvalues.to_numpy() - reference)[part].max() < 1e-17
    first = (tree.eigenvectors.to_numpy()[..., 0] * diffusion["evecs"][:, :, 2:9, :, 0]).sum(-1)
    alone = part & (reference[..., 0] - reference[..., 1] > 1e-4 * reference[..., 0])
    np.testing.assert_allclose(np.abs(first[alone]), 1, atol=1e-12)
    (tmp_path / "in.zarr/dt/c/1/0/0/2").unlink()
    refuse(tmp_path / "in.zarr", "absent", "c/1/0/0/2", "x 5:10", **TENSORS)
    flagged = open_source(SourceConfig(path=str(tmp_path / "in.zarr"), missing="flag", **TENSORS))  # type: ignore[arg-type]  # text, as from a file
    _, missing = flagged.read(whole(flagged))
    assert missing[5:].all() and not missing[:5].any()


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_nifti(tmp_path: Path, diffusion: dict[str, Any], ending: str, dtype: str) -> None:
    """Any axes, scaled integers, a mask, by other processes; the affine goes with the result."""
    packed = pack(diffusion["tensors"], "fsl")[:, :8, :6]
    affine = np.array([[-2.0, 0, 0, 90], [0, 1.9, 0.3, -126], [0, -0.3, 1.9, -72], [0, 0, 0, 1]])
    image = nibabel.Nifti1Image(packed.astype("f8"), affine)
    image.header.set_data_dtype(np.dtype(dtype))
    image.header.set_sform(affine, "scanner")
    nibabel.save(image, tmp_path / f"d{ending}")
    stored = np.asarray(nibabel.load(tmp_path / f"d{ending}").dataobj)
    keys = {**TENSORS, "packing": "fsl"}
    source = open_source(SourceConfig(path=str(tmp_path / f"d{ending}"), **keys))
    assert source.dims == ("x", "y", "z") and source.dtype == ("f4" if dtype == "f4" else "f8")
    matrices = read_all(pickle.loads(pickle.dumps(source)))
    np.testing.assert_array_equal(pack(matrices, "fsl"), stored.astype(source.dtype))
    np.testing.assert_array_equal(matrices, matrices.swapaxes(-1, -2))
    attrs = source.coords.attrs
    np.testing.assert_allclose(np.reshape(attrs["affine"], (4, 4)), affine, atol=1e-5)
    assert attrs["affine_space"] == "scanner" and "voxel axes" in attrs["tensor_frame"]
    again = open_source(SourceConfig(path=str(tmp_path / f"d{ending}"), **keys))
    assert again.identity() == source.identity()
    brain = (diffusion["data"][:, :8, :6, 0] > 300).astype("f4")
    nibabel.save(nibabel.Nifti1Image(brain, affine), tmp_path / f"brain{ending}")
    keys |= {"mask": str(tmp_path / f"brain{ending}"), "isel": {"y": [5, 2]}}
    masked = open_source(SourceConfig(path=str(tmp_path / f"d{ending}"), **keys))
    np.testing.assert_array_equal(masked.todo(whole(masked)), brain[:, [5, 2]] > 0)
    np.testing.assert_array_equal(read_all(masked), matrices[:, [5, 2]])


def test_nifti_states_its_order(tmp_path: Path, diffusion: dict[str, Any]) -> None:
    """Symmetric matrices by intent: five dimensions, the lower triangle row by row."""
    image = nibabel.Nifti1Image(pack(diffusion["tensors"], "dipy")[:, :, :, None], np.eye(4))
    image.header.set_intent("symmetric matrix", (3,))
    nibabel.save(image, tmp_path / "d.nii.gz")
    tree = pipeline.run(
        ["source=tensors", "cluster=serial"],
        source={"path": str(tmp_path / "d.nii.gz")},
        sink={"path": str(tmp_path / "out.zarr")},
    )
    assert tree.attrs["tensor_packing"] == "lower"
    assert np.abs(tree.eigenvalues.to_numpy() - diffusion["evals_desc"]).max() < 1e-17
    assert not pipeline.verify(tmp_path / "out.zarr").failed


@pytest.mark.parametrize("packing", ["upper", "lower"])
def test_triangles_of_any_size(tmp_path: Path, shared: Path, packing: str) -> None:
    with np.load(shared / "data" / "C_tensors" / "hessian_coins.npz") as data:
        np.save(tmp_path / "h.npy", data["upper"])  # rr, rc, cc: both triangles alike for n = 2
        reference = data["evals_desc"]
    keys = {**TENSORS, "packing": packing}
    values = solve(read_all(open_source(SourceConfig(path=str(tmp_path / "h.npy"), **keys))))
    assert np.abs(values[..., ::-1] - reference).max() < 1e-15 * np.abs(reference).max()
    rng = np.random.default_rng(0)
    a = rng.standard_normal((7, 5, 5)).astype("f4")
    a += a.swapaxes(1, 2)
    rows = np.triu_indices(5) if packing == "upper" else np.tril_indices(5)
    np.save(tmp_path / "a.npy", a[:, rows[0], rows[1]])
    five = open_source(SourceConfig(path=str(tmp_path / "a.npy"), **keys))
    np.testing.assert_array_equal(read_all(five), a)
    assert "component" not in five.coords


def test_refusals(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.zeros((4, 5)))
    refuse(tmp_path / "d.npy", "5 elements", "takes 6", packing="fsl", **TENSORS)
    refuse(tmp_path / "d.npy", "5 elements", "3, 6, 10", packing="upper", **TENSORS)
    np.save(tmp_path / "d.npy", np.zeros((4, 3)))
    refuse(tmp_path / "d.npy", "3 elements", packing="fsl", **TENSORS)
    refuse(tmp_path / "no.nii.gz", "does not exist", packing="fsl", **TENSORS)
    (tmp_path / "bad.nii").write_bytes(b"no image")
    refuse(tmp_path / "bad.nii", "cannot be read by nibabel", packing="fsl", **TENSORS)
    group = zarr.create_group(str(tmp_path / "two.zarr"))
    for name in ("a", "b"):
        group.create_array(name, shape=(3, 6), dtype="f8")
    refuse(tmp_path / "two.zarr", "2 arrays", "source.variable", packing="fsl", **TENSORS)
    with pytest.raises(Misuse, match="mrtrix"):
        SourceConfig(path="/x.npy", packing="mrtricks", **TENSORS)
    with pytest.raises(Misuse, match=r"source\.matrix_dims"):
        SourceConfig(path="/x.npy", matrix_dims=[0, 1], **TENSORS)


def test_without_nibabel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.nii").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "nibabel", None)
    refuse(tmp_path / "d.nii", "nibabel", "eigenstream[nifti]", packing="fsl", **TENSORS)
