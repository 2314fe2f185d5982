"""Damage, reuse and odd names: nothing wrong passes for right, nothing readable is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from run_cases import assert_equal_results, draw_hermitian, read_results, run_here, write_stack

import pipeline
from pipeline.__main__ import main
from pipeline.cluster import choose_crew
from pipeline.errors import Misuse
from pipeline.ledger import Ledger
from pipeline.spectra import read_attributes
from pipeline.verdict import allow_bad

Outputs = Callable[[str], Path]
DOS = ("spectrum=dos", "spectrum.width=0.1")


def test_a_path_used_again_in_one_process(tmp_path: Path, outputs: Outputs) -> None:
    rng = np.random.default_rng(0)
    for number, (shape, dtype) in enumerate([((6,), "c8"), ((2, 3), "c8"), ((6,), "f8")]):
        matrices = draw_hermitian(rng, *shape, 3, dtype=dtype)
        path = write_stack(tmp_path / f"{number}.zarr", matrices, shape)
        shutil.rmtree(outputs("a"), ignore_errors=True)
        run_here(path, f"sink.path={outputs('a')}", "solve.vectors=true")
        found = read_results(outputs("a"))
        assert np.allclose(found["//eigenvalues"], np.linalg.eigvalsh(matrices), atol=1e-5)
        assert (found["//status"] == 0).all()


def test_a_trial_that_grows_over_a_damaged_chunk_is_no_success(
    stack: Path, outputs: Outputs
) -> None:
    keys = (f"sink.path={outputs('a')}", "plan.block_bytes=30000")
    assert run_here(stack, *keys, "plan.limit=10").code == 0
    chunk = stack / "H" / "c" / "0" / "1" / "0" / "0"
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    for _ in range(2):
        grown = run_here(stack, *keys)
        assert grown.code == 1 and grown.verdict.lost > 0


def test_verify_notices_a_status_that_is_gone(stack: Path, outputs: Outputs) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "plan.block_bytes=9000").path
    (out / "status" / "c" / "0" / "1").unlink()
    assert main(["verify", str(out), "--all"]) == 1


def test_verify_checks_as_many_as_it_is_told(stack: Path, outputs: Outputs) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", "plan.block_bytes=9000").path
    assert pipeline.verify(out, sample=50).checked == 50
    for sample in (0, -1):
        with pytest.raises(Misuse, match="sample"):
            pipeline.verify(out, sample=sample)
    assert main(["verify", str(out), "solve.check=full"]) == 2
    zarr.open_array(out, path="eigenvalues", mode="r+")[5, 5, 0] = 7.0
    hits = {len(pipeline.verify(out, sample=60, seed=s).failed) for s in range(12)}
    assert hits == {0, 1}  # the seed changes what is drawn
    bare = run_here(stack, f"sink.path={outputs('b')}", "sink.variables=[residual]").path
    assert main(["verify", str(bare)]) == 2


def test_a_spectrum_never_outlives_what_it_was_made_of(stack: Path, outputs: Outputs) -> None:
    out = outputs("a")
    run_here(stack, f"sink.path={out}", *DOS, "plan.limit=13")
    run_here(stack, f"sink.path={out}")
    whole = run_here(stack, f"sink.path={outputs('b')}", *DOS).path
    assert read_attributes(out)["matrices_used"] == 120
    assert_equal_results(out, whole)


def test_bad_rows_are_the_same_bits_in_any_block(tmp_path: Path, outputs: Outputs) -> None:
    for dtype in ("c8", "c16", "f4"):
        matrices = draw_hermitian(np.random.default_rng(0), 12, 4, dtype=dtype)
        matrices[3:9, 0, 1] = np.nan
        path = write_stack(tmp_path / f"{dtype}.zarr", matrices, (3,))
        ways = [(), ("plan.block_bytes=1",), ("plan.block_bytes=800", "cluster=threads")]
        outs = [
            run_here(path, f"sink.path={outputs(dtype + str(i))}", "solve.vectors=true", *way).path
            for i, way in enumerate(ways)
        ]
        for out in outs[1:]:
            assert_equal_results(outs[0], out)


@pytest.mark.parametrize("name", ["gap", "dos", "block", "state", "run", "spectrum", "eigenvalues"])
def test_names_of_ours_are_refused_before_work(tmp_path: Path, outputs: Outputs, name: str) -> None:
    group = zarr.open_group(tmp_path / "in.zarr", mode="w", zarr_format=3)
    group.create_array("H", data=np.ones((3, 2, 2)), dimension_names=[name, "row", "column"])
    group.create_array(name, data=np.arange(3.0), dimension_names=[name])
    with pytest.raises(Misuse, match=rf"sink\.rename={{{name}: "):
        run_here(tmp_path / "in.zarr", f"sink.path={outputs('a')}", *DOS, "spectrum.electrons=2")
    assert not outputs("a").exists()


@pytest.mark.parametrize(
    "sink",
    [
        {"pair_dim": "run"},
        {"pair_dim": "eigenvalues"},
        {"pair_dim": "energy"},
        {"pair_dim": "a/b"},
        {"rename": {"eigenvalues": "run"}},
        {"rename": {"eigenvalues": "x/y"}},
        {"rename": {"eigenvalues": ".."}},
        {"rename": {"k0": "a/b"}},
        {"rename": {"k0": "k1"}},
        {"rename": {"residual": "status"}},
    ],
)
def test_names_that_cannot_be_are_refused(
    stack: Path, outputs: Outputs, sink: dict[str, object]
) -> None:
    with pytest.raises(Misuse):
        run_here(stack, sink={"path": str(outputs("a")), **sink})
    assert not outputs("a").exists()


CRASH = """
import os, sys
from pathlib import Path
import pipeline.sink as sink
steps = [0]
def count(name, module=sink):
    call = getattr(module, name)
    def wrapped(*args, **kwargs):
        steps[0] += 1
        if steps[0] > int(sys.argv[1]): os._exit(9)
        return call(*args, **kwargs)
    setattr(module, name, wrapped)
for name in ("write_coordinates", "hide_group", "consolidate"): count(name)
rename = Path.rename
def counted(self, target):
    steps[0] += 1
    if steps[0] > int(sys.argv[1]): os._exit(9)
    return rename(self, target)
Path.rename = counted
from pipeline.sink import replace_group
import xarray as xr
replace_group(Path(sys.argv[2]), "spectrum", xr.Dataset({"dos": ("energy", [1.0, 2.0, 3.0])}))
"""


@pytest.mark.parametrize("step", range(6))
def test_a_kill_while_a_spectrum_is_replaced(
    stack: Path, outputs: Outputs, tmp_path: Path, step: int
) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}", *DOS).path
    whole = run_here(stack, f"sink.path={outputs('b')}", *DOS).path
    done = subprocess.run([sys.executable, "-c", CRASH, str(step), str(out)], cwd=tmp_path)
    assert done.returncode == (9 if step < 5 else 0)
    assert set(read_results(out)) >= {"//eigenvalues"}  # it opens, whatever is left of the group
    assert run_here(stack, f"sink.path={out}", *DOS).code == 0
    assert_equal_results(out, whole)


def test_links_do_not_hide_where_we_write(stack: Path, outputs: Outputs, tmp_path: Path) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}").path
    link = tmp_path / "link"
    link.symlink_to(out)
    again = run_here(stack, f"sink.path={link}", "sink.overwrite=true", "solve.order=descending")
    assert again.path == out and link.resolve() == out
    inside = tmp_path / "inside"
    inside.symlink_to(stack)
    with pytest.raises(Misuse, match="in or around the input"):
        run_here(stack, f"sink.path={inside}/out.zarr")


def test_a_sink_elsewhere_is_refused(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match="outputs are written to folders"):
        run_here(stack, "sink.path=memory://out.zarr")
    assert not (tmp_path / "memory:").exists()


def test_files_of_the_user_beside_an_output_stay(stack: Path, tmp_path: Path) -> None:
    mine = tmp_path / "bands.yaml"
    mine.write_text("mine: true")
    run_here(stack, f"sink.path={tmp_path / 'bands'}")
    assert mine.read_text() == "mine: true"


def test_the_provenance_follows_the_spectrum(stack: Path, outputs: Outputs) -> None:
    out = run_here(stack, f"sink.path={outputs('a')}").path
    assert main(["analyse", str(out), *DOS]) == 0
    stored = Ledger(out).read_attributes()
    assert stored["config"]["spectrum"]["width"] == 0.1
    assert len(stored["launches"]) == 2
    assert "width: 0.1" in outputs("a.zarr").with_suffix(".yaml").read_text()
    assert main(["analyse", str(out)]) == 0  # nothing due, and not "nothing to analyse"
    assert main(["analyse", str(out), "solve.vectors=true"]) == 2


def test_a_spectrum_that_the_values_do_not_allow(stack: Path, outputs: Outputs) -> None:
    done = run_here(stack, f"sink.path={outputs('a')}", "spectrum=dos", "spectrum.width=1e-9")
    assert done.code == 1 and done.verdict.bad == 0
    with xr.open_zarr(done.path, chunks=None) as found:
        assert (found["status"] == 0).all()
    with pytest.raises(Misuse, match=r"spectrum\.points"):
        run_here(stack, f"sink.path={outputs('b')}", *DOS, "spectrum.points=100000000")


def test_units_that_are_no_text(stack: Path, outputs: Outputs) -> None:
    zarr.open_array(stack, path="H", mode="r+").attrs["units"] = 5
    assert run_here(stack, f"sink.path={outputs('a')}", *DOS).code == 0


def test_a_fraction_of_bad_matrices_is_taken_at_its_word() -> None:
    assert [allow_bad(x / 100, 100) for x in range(100)] == list(range(100))
    assert allow_bad(3, 100) == 3


def test_cores_are_never_oversubscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.cluster import crew

    monkeypatch.setattr(crew, "count_cores", lambda: 4)
    for workers in (None, 1, 3, 16):
        for threads in (None, 1, 2, 9):
            for kind in ("serial", "threads", "local", "auto"):
                size = choose_crew(
                    kind, workers=workers, threads=threads, memory=None, total_bytes=0
                )
                assert 1 <= size.workers * size.threads <= 4


def test_closed_streams_do_not_matter(stack: Path, outputs: Outputs, tmp_path: Path) -> None:
    for number, closed in enumerate(("2>&-", ">&-")):
        command = (
            f"exec {sys.executable} -m pipeline run source.path={stack} "
            f"sink.path={outputs(str(number))} cluster=serial {closed}"
        )
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done
        assert Ledger(outputs(str(number))).count_statuses()["ok"] == 120


def test_a_foreign_kernels_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("")
    root = str(Path(pipeline.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", "source.path=x"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and str(tmp_path / "kernels") in done.stderr


def test_one_damaged_chunk_of_many_blocks_is_not_the_whole_store(
    tmp_path: Path, outputs: Outputs
) -> None:
    matrices = draw_hermitian(np.random.default_rng(0), 64, 4)
    path = write_stack(tmp_path / "in.zarr", matrices, (32,))
    (path / "H" / "c" / "1" / "0" / "0").write_bytes(b"?")
    done = run_here(path, f"sink.path={outputs('a')}", "plan.block_bytes=512")
    assert (done.code, done.verdict.lost, done.verdict.counts["ok"]) == (1, 32, 32)
