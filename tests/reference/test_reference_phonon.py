"""Phonon frequencies of five crystals against those of phonopy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from reference_store import EPS, check_all_ok, measure_pairs, run_stack, write_stack

CRYSTALS = ("NaCl", "Al2O3", "ZnO", "Cr", "Si")
POLAR = CRYSTALS[:3]
UNITS = "eV/(angstrom^2 amu)"
TOLERANCE = 1e-9  # THz


@pytest.fixture(scope="module", params=CRYSTALS)
def crystal(request: pytest.FixtureRequest, shared: Path) -> tuple[str, dict[str, Any]]:
    folder = shared / "data" / "B_phonon" / request.param
    with np.load(folder / "reference.npz") as data:
        return request.param, dict(data)


def label_motions(data: dict[str, Any]) -> NDArray[Any]:
    """Label the rows of a dynamical matrix: which atom moves, and where to."""
    symbols = data["prim_symbols"]
    labels = [f"{symbol}{i} {x}" for i, symbol in enumerate(symbols) for x in "xyz"]
    return np.array(labels, dtype=object)  # text of fixed width has no settled Zarr v3 form


def check_frequencies(
    squares: NDArray[Any], reference: NDArray[Any], q: NDArray[Any], factor: float
) -> None:
    """Compare frequencies, but of the acoustic modes at Gamma the squares.

    There the frequency is the square root of round-off.
    """
    rank = np.argsort(np.argsort(np.abs(reference), axis=-1), axis=-1)
    acoustic = (q == 0).all(-1)[..., None] & (rank < 3)
    frequencies = np.sign(squares) * np.sqrt(np.abs(squares)) * factor
    assert np.abs(frequencies - reference)[~acoustic].max() < TOLERANCE
    expected = reference * np.abs(reference) / factor**2
    rounding = 4 * squares.shape[-1] * EPS * np.abs(squares).max()
    assert np.abs(squares - expected)[acoustic].max(initial=0) < rounding


def test_mesh(crystal: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    """The Gamma-centred mesh, one dimension for each of its axes."""
    name, data = crystal
    mesh = tuple(data["mesh"].tolist())
    count = int(np.prod(mesh))
    matrices = data["dynmat"][:count].reshape(*mesh, *data["dynmat"].shape[1:])
    q = data["q_frac"][:count].reshape(*mesh, 3)
    store = write_stack(
        tmp_path / "in.zarr",
        "dynamical_matrix",
        matrices,
        ("q1", "q2", "q3", "motion", "motion_column"),
        units=UNITS,
        coords={"q1": q[:, 0, 0, 0], "q2": q[0, :, 0, 1], "q3": q[0, 0, :, 2]},
        chunks=(1, *mesh[1:], *matrices.shape[3:]),
        zarr_format=2 if name == "ZnO" else 3,
    )
    tree = run_stack(store, cluster="threads", sink={"pair_dim": "mode"})
    check_all_ok(tree)
    assert tree.eigenvalues.dims == ("q1", "q2", "q3", "mode")
    assert tree.eigenvalues.attrs["units"] == UNITS
    np.testing.assert_array_equal(tree.q2, q[0, :, 0, 1])
    reference = data["frequencies_THz"][:count].reshape(*mesh, -1)
    check_frequencies(tree.eigenvalues.to_numpy(), reference, q, float(data["factor_to_THz"]))


def test_random_points(crystal: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    """The whole list of q, with the polarisation vectors; the last chunk is a ragged one."""
    _, data = crystal
    matrices, q = data["dynmat"], data["q_frac"]
    store = write_stack(
        tmp_path / "in.zarr",
        "dynamical_matrix",
        matrices,
        ("q", "motion", "motion_column"),
        units=UNITS,
        coords={f"q{i + 1}": ("q", q[:, i]) for i in range(3)} | {"motion": label_motions(data)},
        chunks=(37, *matrices.shape[1:]),
    )
    tree = run_stack(store, solve={"vectors": True}, sink={"pair_dim": "mode"})
    check_all_ok(tree)
    squares, vectors = tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy()
    check_frequencies(squares, data["frequencies_THz"], q, float(data["factor_to_THz"]))
    check_vectors(matrices, tree)
    assert tree.eigenvectors.dims == ("q", "motion", "mode")
    assert tree.motion.to_numpy().tolist() == label_motions(data).tolist()
    # in the acoustic modes at Gamma all atoms move alike: sqrt(m) times one shift
    gamma = vectors[0, :, np.argsort(np.abs(squares[0]))[:3]].T
    shifts = np.kron(np.sqrt(data["masses_amu"])[:, None], np.eye(3))
    shifts /= np.linalg.norm(shifts, axis=0)
    overlap = np.linalg.svd(shifts.T @ gamma, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-12)


@pytest.mark.parametrize("name", POLAR)
def test_long_range_term(name: str, shared: Path, tmp_path: Path) -> None:
    """With the non-analytic term: random q, and the limit at Gamma along [100], one matrix."""
    with np.load(shared / "data" / "B_phonon" / name / "reference.npz") as file:
        data = dict(file)
    factor, matrices = float(data["factor_to_THz"]), data["nac_dynmat"]
    q = data["nac_q_frac"]
    store = write_stack(
        tmp_path / "in.zarr",
        "at_random",
        matrices,
        ("q", "motion", "motion_column"),
        units=UNITS,
        chunks=(5, *matrices.shape[1:]),
    )
    limit = data["nac_gamma_dir100_dynmat"]
    write_stack(store, "at_gamma", limit, ("motion", "motion_column"), units=UNITS)
    for variable, reference, where in (
        ("at_random", data["nac_frequencies_THz"], q),
        ("at_gamma", data["nac_gamma_dir100_frequencies_THz"], np.zeros(3)),
    ):
        out = f"{variable}.zarr"
        tree = run_stack(store, out, source={"variable": variable}, solve={"vectors": True})
        check_all_ok(tree)
        check_frequencies(tree.eigenvalues.to_numpy(), reference, where, factor)
        check_vectors(data["nac_dynmat"] if variable == "at_random" else limit, tree)


def check_vectors(matrices: NDArray[Any], tree: xr.DataTree) -> None:
    """Recompute residual and orthogonality."""
    values, vectors = tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy()
    defect, skew = measure_pairs(matrices, values, vectors)
    rounding = 4 * matrices.shape[-1] * EPS
    assert defect < rounding
    assert skew < rounding
