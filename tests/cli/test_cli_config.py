"""The config: composed from files and overrides into plain dataclasses, checked, and amended."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from pipeline.checks import read_bytes
from pipeline.choices import Check, ClusterKind, Gauge, Hermitian, Method, Missing
from pipeline.config import (
    Config,
    SourceConfig,
    amend,
    compose,
    compose_many,
    from_plain,
    show,
    to_plain,
    to_yaml,
)
from pipeline.errors import Misuse
from pipeline.groups import find_folder

X = "source.path=/x.zarr"
HEADER = "# @package _global_\n"
SETTINGS = [
    (["solve.check=off"], "solve", "check", Check.off),
    (["solve.gauge=none"], "solve", "gauge", Gauge.none),
    (["solve.hermitian=lower"], "solve", "hermitian", Hermitian.lower),
    (["solve=vectors"], "solve", "vectors", True),
    (["solve.subset=[0,4]"], "solve", "subset", [0, 4]),
    (["solve.subset=[-4,-1]"], "solve", "subset", [-4, -1]),
    (["spectrum=dos"], "spectrum", "method", Method.dos),
    (["spectrum.method=dos", "spectrum.width=1e-2"], "spectrum", "width", 0.01),
    (["spectrum=dos", "spectrum=none"], "spectrum", "method", None),
    (["+experiment=spectra", "spectrum=none"], "spectrum", "method", None),
    (["spectrum=dos", "spectrum.range=[-1,2.5]"], "spectrum", "range", [-1.0, 2.5]),
    (["cluster=serial"], "cluster", "kind", ClusterKind.serial),
    (["+cluster=local"], "cluster", "kind", ClusterKind.local),
    (["cluster.kind=threads"], "cluster", "kind", ClusterKind.threads),
    (["cluster.memory=4GiB"], "cluster", "memory", 4 << 30),
    (["plan.block_bytes=64 MiB"], "plan", "block_bytes", 64 << 20),
    (["plan={limit: 3, block_bytes: 1e6}"], "plan", "block_bytes", 10**6),
    (["++solve.vectors=true"], "solve", "vectors", True),
    (["source.missing=fill"], "source", "missing", Missing.fill),
    (["source.isel.k1=3", "source.isel={k2: [0, 1]}"], "source", "isel", {"k1": 3, "k2": [0, 1]}),
    (["source.isel.k1=0:10:2"], "source", "isel", {"k1": "0:10:2"}),
    (["source.sel.t=2000-01-01"], "source", "sel", {"t": "2000-01-01"}),
    (["source.matrix_dims=[row,row]"], "source", "matrix_dims", ["row", "row"]),
    (["source.matrix_dims=[0,-1]"], "source", "matrix_dims", [0, -1]),
    (["sink.rename.band=level"], "sink", "rename", {"band": "level"}),
    (["sink.variables=[status,values]"], "sink", "variables", ["eigenvalues", "status"]),
    (["source.variable=1E234"], "source", "variable", "1E234"),
    (["source.variable=1_000"], "source", "variable", "1_000"),
    (["source.variable=true"], "source", "variable", "true"),
    (["source.variable=null"], "source", "variable", None),
    (["run.max_bad=0.01"], "run", "max_bad", 0.01),
]
BAD = [
    (["solve.subset=[4,4]"], "solve.subset"),
    (["solve.subset=[1,2,3]"], "solve.subset"),
    (["solve.subset=[0,2]", "solve.largest=1"], "solve.largest=1"),
    (["solve.largest=0"], "solve.largest"),
    (["solve.dtype=float23"], "solve.dtype=float32"),
    (["solve.hermitian_tol=-1"], "solve.hermitian_tol"),
    (["solve.hermitian=lower", "solve.hermitian_tol=1e-3"], "solve.hermitian=strict"),
    (["spectrum=dos", "spectrum.width=0"], "spectrum.width"),
    (["spectrum=dos", "spectrum.width=inf"], "spectrum.width"),
    (["spectrum=dos", "spectrum.range=[2,1]"], "spectrum.range"),
    (["spectrum=dos", "spectrum.range=[0,nan]"], "spectrum.range"),
    (["spectrum=dos", "spectrum.points=1"], "spectrum.points"),
    (["spectrum=dos", "spectrum.electrons=-1"], "spectrum.electrons"),
    (["spectrum=dos", "spectrum.electrons=8", "solve.largest=2"], "solve.largest=2"),
    (["spectrum=dos", "spectrum.electrons=8", "solve.subset=[1,2]"], "from index 0 on"),
    (["spectrum.width=0.1"], "spectrum=dos"),
    (["sink.variables=[]"], "sink.variables"),
    (["sink.variables=[eigenvalue]"], "sink.variables=eigenvalues"),
    (["sink.variables=[vectors]"], "solve.vectors=true"),
    (["spectrum=dos", "sink.variables=[status]"], "spectrum=none"),
    (["sink.rename={a: x, b: x}"], "sink.rename"),
    (["sink.path='  '"], "sink.path"),
    (["source.matrix_dims=[1]"], "source.matrix_dims"),
    (["source.matrix_dims=[1,1]"], "source.matrix_dims"),
    (["plan.block_bytes=64 MuB"], "plan.block_bytes=64 MiB"),
    (["plan.block_bytes=0"], "plan.block_bytes"),
    (["plan.limit=0"], "plan.limit"),
    (["cluster.memory=[1]"], "cluster.memory"),
    (["cluster.workers=0"], "cluster.workers"),
    (["cluster=serial", "cluster.workers=2"], "cluster=threads"),
    (["run.max_bad=1.5"], "run.max_bad=1"),
    (["run.max_bad=nan"], "run.max_bad"),
]


def test_a_path_alone_is_enough() -> None:
    config = compose([X])
    assert config == Config(source=SourceConfig(path="/x.zarr"))


@pytest.mark.parametrize(("overrides", "group", "key", "value"), SETTINGS)
def test_settings(overrides: list[str], group: str, key: str, value: Any) -> None:
    got = getattr(getattr(compose([X, *overrides]), group), key)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("overrides", "words"), BAD)
def test_bad_values_are_refused_by_name(overrides: list[str], words: str) -> None:
    with pytest.raises(Misuse) as caught:
        compose([X, *overrides])
    message = str(caught.value)
    assert words in message
    assert all(part in message for part in ("got ", "expected:", "remedy:"))


@pytest.mark.parametrize("override", ["experiment=spectra", "+experiment=spectra"])
def test_the_demo_finds_its_data_from_any_directory(
    override: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose([override])
    assert Path(config.source.path, "zarr.json").is_file()
    assert (config.source.variable, config.spectrum.method) == ("H_mesh", Method.dos)
    assert (config.spectrum.electrons, config.spectrum.degeneracy) == (8, 2)
    assert config.spectrum.width and config.spectrum.width > 0
    assert list(tmp_path.iterdir()) == []
    assert Path.cwd() == tmp_path


def test_shipped_data_that_is_not_there(tmp_path: Path) -> None:
    write(
        tmp_path / "experiment/mine.yaml", HEADER + "source: {path: '${eigenstream.data:tin.zarr}'}"
    )
    with pytest.raises(Misuse, match=r"tin\.zarr.*(?s:.)*silicon\.zarr"):
        compose(["experiment=mine"], str(tmp_path))


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    config = compose(["source.path=a/../H.zarr", 'sink.path="~/out.zarr"', "source.mask=./m.zarr"])
    assert config.source.path == str(tmp_path / "H.zarr")
    assert config.source.mask == str(tmp_path / "m.zarr")
    assert config.sink.path == "/home/me/out.zarr"
    for url in ("s3://bucket/H.zarr", "zip::s3://bucket/H.zip", "https://host/H.zarr"):
        assert compose([f"source.path={url}"]).source.path == url
    assert compose([X, "source.mask=brain"]).source.mask == "brain"


def test_plain_values_come_back() -> None:
    config = compose(
        ["+experiment=gaas", "solve.vectors=true", "cluster.memory=1GB", "source.isel.k1=[0,2]"]
    )
    plain = json.loads(json.dumps(to_plain(config)))
    assert from_plain(plain) == config
    assert isinstance(from_plain(plain).spectrum.method, Method)
    assert pickle.loads(pickle.dumps(config)) == config
    assert from_plain({"source": {"path": "/x.zarr"}}) == compose([X])
    mistakes: list[dict[str, Any]]
    mistakes = [{"sorce": {}}, {"solve": {"ordr": 1}}, {"solve": {"order": "up"}}]
    for wrong in mistakes:
        with pytest.raises(Misuse, match=r"sorce|solve\.ord"):
            from_plain(wrong)


def test_a_stored_config_is_an_experiment(tmp_path: Path) -> None:
    config = compose(["+experiment=spectra", r'source.units="\${eV}"', "sink.path=/out.zarr"])
    write(tmp_path / "experiment/again.yaml", to_yaml(config))
    assert compose(["experiment=again"], str(tmp_path)) == config


def test_show_leaves_open_what_must_be_given() -> None:
    assert "path: ???" in show(["spectrum=dos"])
    assert "silicon.zarr" in show(["experiment=spectra"])


def test_nested_values_need_no_quotes() -> None:
    nested = {
        "source": {"path": Path("/d/a=b, ${é}.zarr"), "isel": {"k 1": np.int64(3), "é": [0, 1]}},
        "solve": {"subset": np.array([0, 4]), "order": "descending"},
        "cluster": "serial",
    }
    config = compose(["source.path=/other", "cluster=local"], nested=nested)
    assert config.source.path == "/d/a=b, ${é}.zarr"
    assert config.source.isel == {"k 1": 3, "é": [0, 1]}
    assert config.solve.subset == [0, 4]
    assert config.cluster.kind is ClusterKind.serial
    for wrong, words in (
        ({"solve": {"ordr": 1}}, "solve.order"),
        ({"sovle": {}}, "solve"),
        ({"solve": 3}, "option"),
        ({"solve": {"largest": "x"}}, "solve.largest"),
    ):
        with pytest.raises(Misuse, match=words):
            compose([X], nested=wrong)


def test_sweeps() -> None:
    members = compose_many([X, "solve.largest=1,2", "cluster=serial,threads"])
    found = [(m.solve.largest, m.cluster.kind.value) for m in members]
    assert found == [(1, "serial"), (1, "threads"), (2, "serial"), (2, "threads")]
    subsets = compose_many([X, "solve.subset=[0,1],[2,3]"])
    assert [m.solve.subset for m in subsets] == [[0, 1], [2, 3]]
    assert [m.plan.limit for m in compose_many([X, "plan.limit=range(1,4)"])] == [1, 2, 3]
    assert [m.source.path for m in compose_many(['source.path="/a, b",/c'])] == ["/a, b", "/c"]
    kinds = [m.cluster.kind.value for m in compose_many([X, "cluster=glob(*a*)"])]
    assert kinds == ["auto", "local", "serial", "threads"]
    with pytest.raises(Misuse, match=r"did you mean solve\.order=ascending"):
        compose_many([X, "solve.order=descending,ascendng"])
    with pytest.raises(Misuse, match=r"range\(start"):
        compose_many([X, "run.max_bad=interval(0,1)"])


def test_amending_a_finished_run() -> None:
    before = compose(["+experiment=spectra", "source.isel.k1=0", "sink.path=/out.zarr"])
    after = amend(before, ["spectrum.width=0.02"])
    assert after.spectrum.width == 0.02
    after.spectrum.width = before.spectrum.width
    assert after == before
    assert amend(before, []) == before
    assert amend(before, ["spectrum=dos"]).spectrum.electrons is None
    assert amend(before, ["spectrum={width: 0.3}"]).spectrum.electrons == 8
    assert amend(before, ["source.path=/moved.zarr"]).source.path == "/moved.zarr"
    assert amend(before, ["source.isel.k2=1"]).source.isel == {"k1": 0, "k2": 1}
    with pytest.raises(Misuse, match="experiment"):
        amend(before, ["experiment=gaas"])
    with pytest.raises(Misuse, match=r"spectrum\.width"):
        amend(before, ["spectrum.widht=1"])
    with pytest.raises(Misuse, match="spectrum=dos"):
        amend(compose([X]), ["spectrum.width=1"])


def test_own_directory_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "my conf, (é)"
    write(own / "source/lab.yaml", "path: lab.zarr\nunits: THz")
    write(
        own / "experiment/nested/mine.yaml",
        HEADER + "defaults:\n  - override /source: lab\n  - override /spectrum: dos\n"
        "spectrum: {width: 0.5}\nsource: {isel: {k1: 3}}",
    )
    monkeypatch.chdir(tmp_path)
    for folder in (own.name, str(own)):
        config = compose(["experiment=nested/mine"], folder)
        assert config.source.path == str(tmp_path / "lab.zarr")
        assert (config.source.units, config.source.isel) == ("THz", {"k1": 3})
        assert (config.spectrum.method, config.spectrum.width) == (Method.dos, 0.5)
    assert compose(["+source=lab", "source.units=meV"], own.name).source.units == "meV"
    # the command line wins over what an experiment says
    assert compose(["experiment=nested/mine", "spectrum=none"], own.name).spectrum.method is None
    assert compose(["spectrum.width=1", "experiment=nested/mine"], own.name).spectrum.width == 1


def test_hydra_is_left_as_it_was() -> None:
    folder = str(find_folder("conf"))
    with initialize_config_dir(folder, version_base="1.2", job_name="theirs"):
        before = GlobalHydra.instance().hydra
        compose([X])
        with pytest.raises(Misuse):
            compose(["nonsense=1"])
        assert GlobalHydra.instance().hydra is before
        assert "source" in hydra_compose("config", overrides=[X])
    compose([X])
    assert not GlobalHydra.instance().is_initialized()


def test_threads_compose_at_once() -> None:
    found: list[int | None] = []

    def work(number: int) -> None:
        found.append(compose([X, f"solve.largest={number}"]).solve.largest)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n or 0 for n in found) == list(range(1, 9))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64 MiB", 1 << 26), ("2e9", 2 * 10**9), ("1.5 kB", 1500), ("4g", 4 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_bytes("plan.block_bytes", text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1 2", "0.5", "1e30", "nan", True, [1]])
def test_no_sizes(text: Any) -> None:
    with pytest.raises(Misuse, match="MiB"):
        read_bytes("plan.block_bytes", text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
