"""source.mask: a variable of the store or another store; which matrices to solve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from source_cases import make_stack, open_at, refuse, whole, write_array

from pipeline.plan import Block

MASK = np.random.default_rng(0).random((5, 4)) < 0.4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mask")
    data = xr.Dataset(
        {
            "h": (("x", "y", "i", "j"), make_stack(5, 4, 2, 2)),
            "mask": (("x", "y"), MASK),
            "turned": (("y", "x"), MASK.T.astype("i2") * 3),
            "rows": ("x", MASK[:, 0]),
            "single": ((), True),
            "float": (("x", "y"), MASK.astype("f4")),
            "long": (("x", "z"), np.ones((5, 3), dtype=bool)),
            "gaps": (("x", "y"), np.where(MASK, 1, -9).astype("i2"), {"_FillValue": -9}),
        }
    )
    data.to_zarr(folder / "d", zarr_format=2, encoding={"h": {"chunks": (2, 4, 2, 2)}})
    np.save(folder / "m.npy", MASK)
    write_array(folder / "plain", MASK)
    xr.Dataset({"a": (("x", "y"), MASK), "b": ("x", MASK[:, 0])}).to_zarr(
        folder / "two", zarr_format=2
    )
    return folder


CASES: dict[str, Any] = {
    "mask": MASK,
    "turned": MASK,
    "gaps": MASK,
    "rows": np.broadcast_to(MASK[:, :1], MASK.shape),
    "single": np.ones_like(MASK),
    "{0}/m.npy": MASK,
    "{0}/plain": MASK,
    "{0}/two::a": MASK,
    "{0}/two::b": np.broadcast_to(MASK[:, :1], MASK.shape),
}


@pytest.mark.parametrize("name", CASES)
def test_masks(store: Path, name: str) -> None:
    source = open_at(store / "d", variable="h", mask=name.format(store))
    todo = source.todo(whole(source))
    assert todo is not None and todo.dtype == bool
    np.testing.assert_array_equal(todo, CASES[name])
    part = source.todo(Block(0, (1, 2), (4, 3)))
    np.testing.assert_array_equal(part, CASES[name][1:4, 2:3])


@pytest.mark.parametrize(
    ("isel", "index"),
    [
        ({"x": [4, 0], "y": "::-1"}, ([4, 0], slice(None, None, -1))),
        ({"x": 2}, (2,)),
        ({"y": -1}, (slice(None), -1)),
        ({"x": 1, "y": 1}, (1, 1)),
    ],
)
def test_the_selection_applies_to_the_mask(store: Path, isel: Any, index: Any) -> None:
    for name in ("mask", "turned", "rows"):
        source = open_at(store / "d", variable="h", mask=name, isel=isel)
        todo = source.todo(whole(source))
        assert todo is not None and todo.shape == source.shape
        np.testing.assert_array_equal(todo, CASES[name][index])


def test_without_a_mask_all_is_to_do(store: Path) -> None:
    source = open_at(store / "d", variable="h")
    assert source.todo(whole(source)) is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("masks", ("neither an array of the same store", "turned", "does not exist")),
        ("float", ("float32", "expected bool or an integer")),
        ("long", ("('x', 'z')", "(x: 5, y: 4)")),
        ("{0}/two", ("two::NAME", "a  (5, 4) bool")),
        ("{0}/two::c", ("two::NAME", "b  (5,) bool")),
    ],
)
def test_masks_that_are_refused(store: Path, mask: str, words: tuple[str, ...]) -> None:
    refuse(store / "d", *words, variable="h", mask=mask.format(store))


def test_the_full_shape_is_checked(store: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", MASK[:2])
    keys = {"variable": "h", "isel": {"x": "0:2"}, "mask": str(tmp_path / "m.npy")}
    refuse(store / "d", "(2, 4)", "before any selection", "(x: 5, y: 4)", **keys)


def test_absent_chunks_of_a_mask_mean_its_fill_value(tmp_path: Path) -> None:
    write_array(tmp_path / "h", make_stack(4, 2, 2))
    zarr.create_array(str(tmp_path / "m"), shape=(4,), chunks=(1,), dtype="?")[2] = True
    source = open_at(tmp_path / "h", mask=str(tmp_path / "m"))
    todo = source.todo(whole(source))
    assert todo is not None and todo.tolist() == [False, False, True, False]


def test_the_content_of_the_mask_is_part_of_the_identity(store: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", MASK)
    first = open_at(store / "d", variable="h", mask=str(tmp_path / "m.npy")).identity()
    assert first == open_at(store / "d", variable="h", mask="mask").identity()
    changed = MASK.copy()
    changed[3, 3] = not changed[3, 3]
    np.save(tmp_path / "m.npy", changed)
    assert first != open_at(store / "d", variable="h", mask=str(tmp_path / "m.npy")).identity()
