"""Bands followed through crossings: models with a known answer, silicon and copper."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch
import zarr

import kernels

ROOT = Path(__file__).resolve().parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def connected(h: Any, **options: Any) -> Any:
    found = kernels.eigh(h)
    return kernels.connect_bands(found.values, found.vectors, **options)


def straight_lines(is_complex: bool, points: int) -> tuple[Any, Any]:
    """Levels that cross, in a fixed random basis: exact crossings, at sampled points too."""
    x = np.linspace(-1, 1, points)
    lines = np.stack([x, -x, 0.5 + 0 * x, 2 * x + 0.25, x**2 - 3], -1)
    q = np.linalg.qr(cases.gaussian(np.random.default_rng(3), (5, 5), is_complex))[0]
    return cases.hermitian((q * lines[:, None, :]) @ q.conj().T), lines


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("points", [5, 20, 41])  # odd: x = 0 is sampled, where two are equal
def test_exact_crossings_go_straight_on(points: int, is_complex: bool) -> None:
    h, lines = straight_lines(is_complex, points)
    bands = connected(h)
    order = np.argsort(lines[0])
    assert np.abs(bands.values - lines[:, order]).max() < 1e-13
    assert (np.sort(bands.permutation, -1) == np.arange(5)).all() and bands.overlap.min() > 0.999
    assert kernels.verify(h, bands.values, bands.vectors).max() < 20
    step = (bands.vectors[:-1].conj() * bands.vectors[1:]).sum(-2)
    assert np.abs(np.abs(step) - 1).max() < 1e-12


@pytest.mark.parametrize("gap", [0.3, 0.05])
def test_avoided_crossings_are_not_crossed(gap: float) -> None:
    """Also by steps that are longer than the crossing is wide."""
    for points in (201, 21, 8):
        x = np.linspace(-1, 1.1, points)
        h = np.zeros((points, 3, 3))
        h[:, 0, 0], h[:, 1, 1], h[:, 2, 2] = x, -x, 0.7 * x
        h[:, 0, 1] = h[:, 1, 0] = gap / 2
        bands = connected(h)
        root = np.sqrt(x**2 + gap**2 / 4)
        expected = np.stack([-root, 0.7 * x, root], -1)
        assert np.abs(bands.values - expected[:, np.argsort(expected[0])]).max() < 1e-13


def test_clusters_go_as_subspaces() -> None:
    """A pair that stays degenerate, its basis turned at random, crosses a single band."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1, 1, 31)
    q = np.linalg.qr(cases.gaussian(rng, (3, 3), True))[0]
    lines = np.stack([x, x, -0.5 * x], -1)
    h = cases.hermitian((q * lines[:, None, :]) @ q.conj().T)
    found = kernels.eigh(h)
    v = found.vectors.copy()
    for i in range(31):
        if abs(x[i]) > 1e-9:
            pair = [0, 1] if x[i] < 0 else [1, 2]
            turn = np.linalg.qr(cases.gaussian(rng, (2, 2), True))[0]
            v[i][:, pair] = v[i][:, pair] @ turn
    bands = kernels.connect_bands(found.values, v)
    assert np.abs(bands.values - lines).max() < 1e-13 and bands.overlap.min() > 0.999
    assert np.abs((bands.vectors[0].conj() * bands.vectors[-1]).sum(0)).min() > 1 - 1e-12


def test_silicon_against_a_path_twenty_times_as_dense() -> None:
    build = load(ROOT / "scripts" / "make_data.py")
    h = zarr.open_group(ROOT / "data" / "silicon.zarr", mode="r")["H_path"][:]
    corner, steps = build.PATH // 2, np.arange(20 * build.PATH + 1)
    legs = {
        "L": (h[: corner + 1], np.repeat(steps[: 20 * corner + 1, None], 3, 1)[::-1]),
        # at X itself, where the leg would begin, all bands meet in pairs
        "X": (h[corner:-1][::-1], np.stack([steps, 0 * steps, 0 * steps], -1)[:-20][::-1]),
    }
    for name, (coarse, fine) in legs.items():
        model = build.build_hamiltonians(fine, 20 * build.PATH, build.MATERIALS["silicon"])
        assert np.abs(model[::20] - coarse).max() < 1e-12, name
        truth, bands = connected(model), connected(coarse)
        assert np.abs(truth.values[::20] - bands.values).max() < 1e-9
        assert kernels.verify(coarse, bands.values, bands.vectors).max() < 20
        assert (bands.permutation != np.arange(10)).any()  # there are crossings


def test_copper_against_a_path_twenty_times_as_dense(shared: Path) -> None:
    """Leg by leg, without the corners, where bands meet and the path turns."""
    wannier = load(ROOT / "tests" / "reference" / "reference_wannier.py")
    folder = shared / "data" / "A_wannier" / "Cu_wannierdatasets"
    model = wannier.read_tb(folder / "Cu_tb.dat.gz")
    with np.load(folder / "reference.npz") as file:
        k, corners = file["kpath_frac"], file["label_index"]
    crossed = 0
    for start, stop in zip(corners[:-1] + 1, corners[1:], strict=True):
        if stop - start < 8:
            continue
        leg = k[start:stop]
        steps = np.arange(20 * (len(leg) - 1) + 1) / 20
        low = np.minimum(steps.astype(int), len(leg) - 2)
        fine = leg[low] + (steps - low)[:, None] * (leg[low + 1] - leg[low])
        bands = connected(model.sum_hamiltonian(leg))
        truth = connected(model.sum_hamiltonian(fine))
        assert np.abs(truth.values[::20] - bands.values).max() < 1e-6
        crossed += int((bands.permutation != np.arange(7)).any(-1).sum())
    assert crossed > 10


def test_dimensions_kinds_and_points_without_a_value() -> None:
    h, _ = straight_lines(True, 20)
    plain = connected(h)
    found = kernels.eigh(np.stack([h, h[::-1]], 1))
    both = kernels.connect_bands(found.values, found.vectors, dim=0)
    assert both.values.shape == (20, 2, 5) and both.permutation.dtype == np.int64
    for x, y in zip(both, plain, strict=True):
        assert np.ascontiguousarray(x[:, 0]).tobytes() == np.ascontiguousarray(y).tobytes()
    back = kernels.eigh(torch.from_numpy(h))
    tensors = kernels.connect_bands(back.values, back.vectors)
    for x, y in zip(tensors, plain, strict=True):
        assert isinstance(x, torch.Tensor) and np.array_equal(x.numpy(), y)
    h[7] = np.nan
    gap = connected(h)
    assert np.isnan(gap.values[7]).all() and np.isnan(gap.overlap[7]).all()
    rest = np.arange(20) != 7
    assert np.abs(gap.values[rest] - plain.values[rest]).max() < 1e-13
    leading = kernels.connect_bands(found.values[..., 3:], found.vectors[..., 3:], dim=0)
    assert leading.values.shape == (20, 2, 2)


def test_gradient_flows_through_the_permutation() -> None:
    h, _ = straight_lines(False, 8)
    a = torch.from_numpy(h).requires_grad_()
    found = kernels.eigh(a)
    bands = kernels.connect_bands(found.values, found.vectors)
    (bands.values[-1, 0] + bands.vectors[-1, 0, 0] ** 2).backward()
    assert a.grad is not None and a.grad[-1].abs().max() > 0 and not a.grad[:-1].any()


def test_misuse() -> None:
    w, v = np.zeros((4, 3)), np.zeros((4, 3, 3))
    for wrong in ((w[0], v[0]), (w, v[:3]), (w, v[..., :2]), (w + 0j, v)):
        with pytest.raises(ValueError, match=r"connect_bands: got values of shape"):
            kernels.connect_bands(*wrong)
    with pytest.raises(ValueError, match="dim = 1"):
        kernels.connect_bands(w, v, dim=1)
    with pytest.raises(ValueError, match="tol"):
        kernels.connect_bands(w, v, tol=-1.0)
