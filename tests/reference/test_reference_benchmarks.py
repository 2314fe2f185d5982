"""Matrices with known eigenvalues: clusters, grading, extreme scales, zeros, NaN, one triangle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_store import (
    EPS,
    check_all_ok,
    measure_pairs,
    measure_values,
    run_stack,
    write_stack,
)

import pipeline
from pipeline.__main__ import main

SOLVED = (
    "wilkinson_W21p",
    "glued_W21p_x5_1e-14",
    "glued_W21p_x5_sqrt_eps",
    "clement_50",
    "rosser",
    "hilbert_8",
    "toeplitz_121_100",
    "minij_30",
    "gauss_hermite_jacobi_64",
    "jz_ss_9",
    "spin_Jy_64",
    "flux_ring_32",
    "near_degenerate_2x2",
    "hard_3x3_A",
    "graded_20",
    "W21p_scaled_1e300",
    "W21p_scaled_1e-300",
    "zero_4",
    "uplo_lower_3",
    "uplo_upper_3",
)
OTHERS = ("uplo_input_3", "nan_tridiag30_first", "nan_tridiag30_middle")
WORST = 4.5e-15  # of the norm: the worst that numpy shows on these matrices


@pytest.fixture(scope="module")
def matrices(shared: Path) -> dict[str, NDArray[Any]]:
    with np.load(shared / "data" / "D_benchmarks" / "matrices.npz") as data:
        return dict(data)


def write_matrices(path: Path, values: NDArray[Any]) -> Path:
    """Write a matrix, or a stack with one dimension."""
    dims = ("sample", "row", "column")[3 - values.ndim :]
    return write_stack(path, "matrix", values, dims, units="1")


def allow_error(n: int) -> float:
    """Error of a backward-stable solver over the norm: about n eps, and no worse than numpy's."""
    return min(WORST, 4 * n * EPS)


def test_every_entry_is_here(shared: Path, matrices: dict[str, NDArray[Any]]) -> None:
    entries = json.loads((shared / "data" / "D_benchmarks" / "eigenvalues.json").read_text())
    assert set(entries) == {*SOLVED, *OTHERS}
    assert set(matrices) >= set(entries)


@pytest.mark.parametrize("name", SOLVED)
def test_known_eigenvalues(name: str, matrices: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    """Values alone and with vectors; residual and orthogonality recomputed."""
    given = matrices[name]
    n, high, low = given.shape[-1], matrices[f"{name}__eig_hi"], matrices[f"{name}__eig_lo"]
    store = write_matrices(tmp_path / "in.zarr", given)
    for out, vectors in (("values.zarr", False), ("vectors.zarr", True)):
        tree = run_stack(store, out, solve={"vectors": vectors, "check": "full"})
        check_all_ok(tree)
        values = tree.eigenvalues.to_numpy()
        assert (np.diff(values) >= 0).all()
        assert measure_values(values, high, low) <= allow_error(n)
    defect, skew = measure_pairs(given, values, tree.eigenvectors.to_numpy())
    assert defect <= allow_error(n)
    assert skew <= allow_error(n)


def test_quadrature_of_gauss_and_hermite(matrices: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    """The first row of the vectors holds the weights; their 34th moment is known exactly."""
    store = write_matrices(tmp_path / "in.zarr", matrices["gauss_hermite_jacobi_64"])
    tree = run_stack(store, solve={"vectors": True})
    nodes, first = tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy()[0]
    moment = (first**2 * nodes**34).sum()
    assert moment == pytest.approx(6332659870762850625 / 131072, rel=1e-10)


def test_zero_matrix(matrices: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    store = write_matrices(tmp_path / "in.zarr", matrices["zero_4"])
    tree = run_stack(store, solve={"vectors": True})
    assert (tree.eigenvalues == 0).all()
    assert float(tree.residual) == 0
    assert int(tree.status) == 0


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_one_triangle(triangle: str, matrices: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    store = write_matrices(tmp_path / "in.zarr", matrices["uplo_input_3"])
    tree = run_stack(store, solve={"vectors": True, "hermitian": triangle})
    check_all_ok(tree)
    name = f"uplo_{triangle}_3"
    values = tree.eigenvalues.to_numpy()
    high, low = matrices[f"{name}__eig_hi"], matrices[f"{name}__eig_lo"]
    assert measure_values(values, high, low) <= allow_error(3)
    worst = measure_pairs(matrices[name], values, tree.eigenvectors.to_numpy())
    assert max(worst) <= allow_error(3)


def test_average_of_both_triangles(matrices: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    given = matrices["uplo_input_3"]
    store = write_matrices(tmp_path / "in.zarr", given)
    tree = run_stack(store, solve={"vectors": True, "hermitian": "average"})
    check_all_ok(tree)
    values, vectors = tree.eigenvalues.to_numpy(), tree.eigenvectors.to_numpy()
    assert max(measure_pairs((given + given.T) / 2, values, vectors)) <= allow_error(3)


def test_strict_flags_it(
    matrices: dict[str, NDArray[Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not Hermitian: NaN, exit 1; one bad matrix allowed: exit 0."""
    store = write_matrices(tmp_path / "in.zarr", matrices["uplo_input_3"])
    words = ["run", f"source.path={store}", "cluster=serial", f"sink.path={tmp_path / 'out.zarr'}"]
    assert main(words) == 1
    assert "1 not_hermitian" in capsys.readouterr().err
    tree = pipeline.open(tmp_path / "out.zarr")
    assert int(tree.status) == 3
    assert np.isnan(tree.eigenvalues).all()
    assert main([*words, "run.max_bad=1"]) == 0


@pytest.mark.parametrize("triangle", ["strict", "lower", "upper", "average"])
@pytest.mark.parametrize("vectors", [False, True], ids=["values", "vectors"])
def test_nan_stays_where_it_is(
    vectors: bool, triangle: str, matrices: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    """LAPACK can give a finite spectrum for NaN: here status and NaN, and equal neighbours."""
    half = np.diag(np.full(29, 0.5), 1)
    clean = np.diag(np.arange(1.0, 31)) + half + half.T
    first, middle = matrices["nan_tridiag30_first"], matrices["nan_tridiag30_middle"]
    good = np.stack([clean, matrices["minij_30"], -clean])
    stack = np.stack([good[0], first, good[1], middle, good[2]])
    solve = {"vectors": vectors, "hermitian": triangle}
    mixed = write_matrices(tmp_path / "mixed.zarr", stack)
    alone = write_matrices(tmp_path / "alone.zarr", good)
    ours = run_stack(mixed, "mixed_out.zarr", solve=solve)
    theirs = run_stack(alone, "alone_out.zarr", solve=solve)
    assert ours.status.to_numpy().tolist() == [0, 2, 0, 2, 0]
    check_all_ok(theirs)
    for name in ("eigenvalues", *(["eigenvectors"] if vectors else [])):
        values = ours[name].to_numpy()
        assert np.isnan(values[1::2]).all()
        np.testing.assert_array_equal(values[::2], theirs[name].to_numpy())
