"""What comes out of a run: right, labelled, traceable, and the same however it was run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from run_cases import (
    assert_equal_results,
    configure,
    draw_hermitian,
    read_results,
    run_here,
    write_stack,
)

from pipeline.columns import OUTCOMES
from pipeline.errors import Misuse
from pipeline.ledger import Ledger

Outputs = Callable[[str], Path]


def read_input(path: Path) -> np.ndarray:
    return np.asarray(zarr.open_array(path, path="H", mode="r")[...])


def test_values_and_vectors_are_right(stack: Path, outputs: Outputs) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "solve.vectors=true").path
    a = read_input(stack)
    with xr.open_zarr(out, chunks=None) as found:
        assert found["eigenvalues"].dims == ("k0", "k1", "band")
        assert found["eigenvectors"].dims == ("k0", "k1", "orbital", "band")
        values, vectors = found["eigenvalues"].values, found["eigenvectors"].values
        assert np.allclose(values, np.linalg.eigvalsh(a), atol=1e-13)
        assert np.abs(a @ vectors - vectors * values[..., None, :]).max() < 1e-13
        gram = vectors.conj().swapaxes(-1, -2) @ vectors
        assert np.abs(gram - np.eye(6)).max() < 1e-13
        assert (found["status"] == 0).all()
        assert float(found["residual"].max()) < 10


def test_the_output_opens_without_a_warning_and_keeps_labels(stack: Path, outputs: Outputs) -> None:
    with xr.open_zarr(stack, chunks=None, consolidated=False) as source:
        k1 = source["k1"].load()
    out = run_here(stack, f"sink.path={outputs('a')}", "spectrum=dos", "spectrum.width=0.1").path
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xr.open_zarr(out) as root, xr.open_datatree(out, engine="zarr") as tree:
            assert set(tree.children) == {"run", "spectrum"}
            assert root["eigenvalues"].attrs["units"] == "eV"
            assert root["k1"].equals(k1)
            assert root["band"].values.tolist() == list(range(6))
            assert root["status"].attrs["flag_meanings"].split() == list(OUTCOMES)
            assert tree["spectrum"]["dos"].attrs["units"] == "1/eV"


@pytest.mark.parametrize(
    ("key", "picked"),
    [
        ("solve.order=descending", [5, 4, 3, 2, 1, 0]),
        ("solve.largest=2", [4, 5]),
        ("solve.subset=[1,3]", [1, 2]),
        ("solve.subset=[-2,6]", [4, 5]),
    ],
)
def test_selected_pairs_keep_their_index(
    stack: Path, outputs: Outputs, key: str, picked: list[int]
) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "solve.vectors=true", key).path
    a = read_input(stack)
    with xr.open_zarr(out, chunks=None) as found:
        assert found["band"].values.tolist() == picked
        assert np.allclose(found["eigenvalues"], np.linalg.eigvalsh(a)[..., picked], atol=1e-13)
        v = found["eigenvectors"].values
        assert np.abs(a @ v - v * found["eigenvalues"].values[..., None, :]).max() < 1e-13


def test_the_same_bits_however_it_is_run(stack: Path, outputs: Outputs) -> None:
    """Serial, threads and processes; one block, whole chunks, and parts of chunks."""
    extra = ("solve.vectors=true", "spectrum=dos", "spectrum.width=0.1", "spectrum.electrons=6")
    first = run_here(stack, f"sink.path={outputs('0')}", *extra).path
    ways = [
        ("cluster=serial", "plan.block_bytes=4000"),
        ("cluster=threads", "plan.block_bytes=9000"),
        ("cluster=threads", "cluster.threads=2", "cluster.workers=1"),
        ("cluster=local", "cluster.workers=2", "plan.block_bytes=10000"),
    ]
    counts = set()
    for number, way in enumerate(ways, 1):
        out = run_here(stack, f"sink.path={outputs(str(number))}", *extra, *way).path
        counts.add(len(Ledger(out).blocks))
        assert_equal_results(first, out)
    assert len(counts) > 2


def test_provenance_is_enough_to_run_again(stack: Path, outputs: Outputs) -> None:
    from pipeline.config import from_plain
    from pipeline.run import run

    first = run_here(stack, f"sink.path={outputs('a')}", "solve.order=descending").path
    stored = Ledger(first).read_attributes()
    assert stored["launches"][0]["versions"]["torch"] != "not installed"
    assert stored["launches"][0]["ended"] == "finished"
    config = from_plain(stored["config"])
    config.sink.path = str(outputs("b"))
    assert_equal_results(first, run(config).path)
    assert first.with_name("a.zarr.yaml").read_text().count("descending") == 1
    assert "result: 120 ok" in first.with_name("a.zarr.log").read_text()


def test_each_block_records_who_solved_it(stack: Path, outputs: Outputs) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "plan.block_bytes=9000").path
    columns = Ledger(out).columns
    assert (columns["driver"] == 2).all()  # lanes
    assert (columns["device"] == 1).all()  # cpu
    assert (columns["seconds"] > 0).all()


def test_masked_matrices_are_never_solved(tmp_path: Path, outputs: Outputs) -> None:
    matrices = draw_hermitian(np.random.default_rng(2), 20, 4)
    matrices[:10] = np.nan
    path = write_stack(tmp_path / "in.zarr", matrices, (5,))
    mask = np.arange(20) >= 10
    zarr.open_group(path, mode="r+").create_array("brain", data=mask, dimension_names=["k0"])
    # the masked chunks cannot even be read
    for chunk in ("0", "1"):
        (path / "H" / "c" / chunk / "0" / "0").write_bytes(b"not a chunk")
    done = run_here(path, f"sink.path={outputs('a')}", "source.mask=brain", "plan.block_bytes=1280")
    assert done.code == 0
    assert done.verdict.counts["masked"] == 10
    with xr.open_zarr(done.path, chunks=None) as found:
        assert (found["status"].values == np.where(mask, 0, 6)).all()
        assert np.isnan(found["eigenvalues"].values[:10]).all()


def test_a_limit_leaves_the_rest_not_run_and_can_be_lifted(stack: Path, outputs: Outputs) -> None:
    out = outputs("a")
    run_here(stack, f"sink.path={out}", "plan.limit=37", "plan.block_bytes=9000")
    with xr.open_zarr(out, chunks=None) as found:
        status = found["status"].values.ravel()
        assert (status[:37] == 0).all() and (status[37:] == 7).all()
        assert np.isnan(found["eigenvalues"].values.reshape(120, 6)[37:]).all()
    run_here(stack, f"sink.path={out}", "plan.block_bytes=9000")
    run_here(stack, f"sink.path={outputs('b')}")
    assert_equal_results(out, outputs("b"))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_unusual_batch_shapes(tmp_path: Path, outputs: Outputs, shape: tuple[int, ...]) -> None:
    matrices = draw_hermitian(np.random.default_rng(0), *shape, 3)
    path = write_stack(tmp_path / "in.zarr", matrices, tuple(max(1, s) for s in shape))
    out = run_here(path, f"sink.path={outputs('a')}", "solve.vectors=true").path
    found = read_results(out)
    assert np.allclose(found["//eigenvalues"], np.linalg.eigvalsh(matrices))
    assert found["//status"].shape == shape


def test_one_by_one_matrices(tmp_path: Path, outputs: Outputs) -> None:
    path = write_stack(tmp_path / "in.zarr", np.arange(5.0).reshape(5, 1, 1), (2,))
    found = read_results(run_here(path, f"sink.path={outputs('a')}").path)
    assert found["//eigenvalues"].ravel().tolist() == [0, 1, 2, 3, 4]


def test_a_name_of_ours_is_refused_with_the_remedy(tmp_path: Path, outputs: Outputs) -> None:
    group = zarr.open_group(tmp_path / "in.zarr", mode="w", zarr_format=3)
    group.create_array("H", data=np.ones((4, 2, 2)), dimension_names=["band", "row", "column"])
    with pytest.raises(Misuse, match=r"sink.rename"):
        run_here(tmp_path / "in.zarr", f"sink.path={outputs('a')}")
    assert not outputs("a").exists()
    out = run_here(
        tmp_path / "in.zarr", f"sink.path={outputs('a')}", sink={"rename": {"band": "image"}}
    ).path
    with xr.open_zarr(out, chunks=None) as found:
        assert found["eigenvalues"].dims == ("image", "band")


def test_files_stay_few(tmp_path: Path, outputs: Outputs) -> None:
    """1,000 chunks of one matrix do not become 1,000 blocks of a file each."""
    matrices = np.ones((1000, 1, 1)) * np.eye(8)
    path = write_stack(tmp_path / "in.zarr", matrices, (1,))
    out = run_here(path, f"sink.path={outputs('a')}", "cluster=threads").path
    assert len(Ledger(out).blocks) == 1
    assert sum(1 for p in out.rglob("*") if p.is_file()) < 50


def test_misuse_writes_nothing(stack: Path, outputs: Outputs, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for overrides in (
        ["solve.largest=7"],
        ["solve.subset=[4,3]"],
        ["solve.dtype=float64"],
        ["solve.device=cuda"],
        ["solve.driver=nosuch"],
        ["source.variable=h"],
        ["sink.variables=[eigenvectors]"],
        ["sink.variables=[eigen]"],
        [f"sink.path={stack}"],
        [f"sink.path={stack}/inside.zarr"],
        ["cluster.memory=100MiB"],
        ["spectrum=dos", "spectrum.electrons=40"],
        ["spectrum=dos", "spectrum.weights=nosuch"],
        ["sink.rename={nosuch: x}"],
    ):
        with pytest.raises(Misuse):
            config = configure(stack, f"sink.path={outputs('a')}", *overrides)
            from pipeline.run import run

            run(config)
    assert sorted(tmp_path.rglob("*")) == before
