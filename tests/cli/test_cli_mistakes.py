"""Every mistake on the command line or in a config file gets one message that helps."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pipeline.config import compose, compose_many
from pipeline.errors import Misuse

X = "source.path=/x.zarr"
MISTAKES = {
    "no input": ([], ["source.path", "+experiment=spectra"]),
    "mistyped key": ([X, "solve.ordr=ascending"], ["solve.ordr", "did you mean solve.order?"]),
    "mistyped group of a key": ([X, "slove.order=ascending"], ["did you mean solve.order?"]),
    "key without its group": (["path=x"], ["source.path or sink.path"]),
    "key of another group": ([X, "source.width=1"], ["spectrum.width"]),
    "key that resembles none": ([X, "zzz=1"], ["unknown key zzz", "--help"]),
    "no key": ([X, "=1"], ["unknown key"]),
    "mistyped group": (["sorce=zarr"], ["did you mean source?"]),
    "mistyped option": ([X, "spectrum=doss"], ["dos | none", "spectrum=dos?", "--config-dir"]),
    "option that resembles none": ([X, "cluster=cray"], ["auto | local | serial | threads"]),
    "null for an option": ([X, "cluster=null"], ["cluster=null", "auto"]),
    "number for an option": ([X, "cluster=5"], ["cluster=5", "auto"]),
    "list of options": ([X, "cluster=[serial,local]"], ["auto"]),
    "mistyped experiment": (["+experiment=spectre"], ["experiment=spectra?"]),
    "mistyped choice": ([X, "solve.order=ascendng"], ["ascendng", "solve.order=ascending?"]),
    "text for a number": ([X, "plan.limit=abc"], ["plan.limit", "abc", "int or null"]),
    "text for a float": ([X, "spectrum=dos", "spectrum.width=abc"], ["abc", "float or null"]),
    "float for an int": ([X, "solve.largest=3.5"], ["3.5", "int or null"]),
    "word for a bool": ([X, "solve.vectors=maybe"], ["maybe", "true | false"]),
    "number for a list": ([X, "solve.subset=4"], ["4", "list of two int"]),
    "list of words": ([X, "solve.subset=[a,b]"], ["solve.subset", "list of two int"]),
    "list for text": (["source.path=[a,b]"], ["""'source.path="[a,b]"'"""]),
    "open bracket": ([X, "solve.subset=[0,4"], ["[0,4", "list of two int"]),
    "unquoted list": ([X, "solve.subset=0,4"], ["'solve.subset=[0,4]'", "-m"]),
    "unquoted list of positions": ([X, "source.isel.k1=0,4"], ["'source.isel.k1=[0,4]'"]),
    "several options without -m": ([X, "cluster=serial,local"], ["one value", "add -m"]),
    "sweep without -m": ([X, "solve.largest=1,2"], ["add -m"]),
    "range without -m": ([X, "plan.limit=range(1,3)"], ["add -m"]),
    "sweep over an unknown key": ([X, "solve.larges=1,2"], ["solve.largest"]),
    "key alone": (["source.path"], ["source.path=VALUE"]),
    "no value": (["source.path="], ["nothing after '='"]),
    "empty text": (["source.path=''"], ["source.path", "some text"]),
    "deletion": ([X, "~solve.order"], ["solve.order=null"]),
    "deleted group": ([X, "~spectrum"], ["spectrum=none"]),
    "package": ([X, "spectrum@solve=dos"], ["leave out @"]),
    "group for a value": ([X, "plan=5"], ["block_bytes", "plan.block_bytes=VALUE"]),
    "mistyped key in a mapping": ([X, "plan={limt: 3}"], ["plan.limit"]),
    "key that is too long": ([X, "solve.order.x=1"], ["solve.order"]),
    "letters in a key": ([X, "source.isel.é=1"], ["YAML"]),
    "interpolation of nothing": (["source.path=${foo}"], ["source.path", r"\${"]),
    "Hydra's own key": ([X, "hydra.run.dir=x"], ["sink.path"]),
    "misspelt key of Hydra": ([X, "hydra.serchpath=[x]"], ["--config-dir"]),
    "unknown key of Hydra": ([X, "hydra.zzz=1"], ["leave it out"]),
    "group of Hydra": ([X, "hydra/launcher=joblib"], ["-m"]),
}
UNQUOTED = [
    "/d/a=b, (é).zarr",
    "/d/a b=c.zarr",
    "/d/a,b.zarr",
    "/d/(a).zarr",
    "/d/[a].zarr",
    "/d/{a}.zarr",
    "/d/é.zarr",
    "~/H.zarr",
    "/d/it's.zarr",
    "f(x)",
    "中.zarr",
]


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    overrides, words = MISTAKES[name]
    with pytest.raises(Misuse) as caught:
        compose(overrides)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "remedy:" in message and "expected:" in message
    assert len(message.splitlines()) <= 4


@pytest.mark.parametrize("path", UNQUOTED)
def test_the_form_shown_for_an_unquoted_value_works(path: str) -> None:
    with pytest.raises(Misuse) as caught:
        compose([f"source.path={path}"])
    shown = str(caught.value).rpartition(" type ")[2]
    config = compose(shlex.split(shown))
    assert config.source.path.endswith(path.removeprefix("~"))


def test_a_value_that_the_shell_has_split() -> None:
    words = shlex.split("source.path=/d/my big data.zarr solve.vectors=true")
    with pytest.raises(Misuse, match="big") as caught:
        compose(words)
    shown = str(caught.value).rpartition(" type ")[2]
    assert compose(shlex.split(shown)).source.path == "/d/my big data.zarr"


def test_a_space_alone_needs_the_shells_quotes_only() -> None:
    assert compose(["source.path=/d/a b.zarr"]).source.path == "/d/a b.zarr"


FILES = {
    "no header": (
        "experiment/mine.yaml",
        "source: {path: /x.zarr}",
        "experiment=mine",
        ["experiment/mine.yaml", "# @package _global_"],
    ),
    "mistyped key": (
        "experiment/mine.yaml",
        "# @package _global_\nspectrum: {widht: 1}",
        "experiment=mine",
        ["experiment/mine.yaml", "spectrum.widht", "spectrum.width?"],
    ),
    "unknown group": (
        "experiment/mine.yaml",
        "# @package _global_\nslove: {order: ascending}",
        "experiment=mine",
        ["experiment/mine.yaml", "slove", "did you mean solve?"],
    ),
    "wrong type": (
        "experiment/mine.yaml",
        "# @package _global_\nsolve: {largest: many}",
        "experiment=mine",
        ["experiment/mine.yaml", "solve.largest", "'many'", "int or null"],
    ),
    "mistyped choice": (
        "experiment/mine.yaml",
        "# @package _global_\nsolve: {order: ascendng}",
        "experiment=mine",
        ["experiment/mine.yaml", "solve.order=ascending?"],
    ),
    "YAML's off": (
        "experiment/mine.yaml",
        "# @package _global_\nsolve: {check: off}",
        "experiment=mine",
        ["solve.check", "quotes"],
    ),
    "bad value": (
        "experiment/mine.yaml",
        "# @package _global_\nsource: {path: /x}\nsolve: {largest: 0}",
        "experiment=mine",
        ["solve.largest", "1 or more"],
    ),
    "lost option": (
        "experiment/mine.yaml",
        "# @package _global_\ndefaults:\n  - override /spectrum: doss\n",
        "experiment=mine",
        ["spectrum=doss", "dos | none"],
    ),
    "override of nothing": (
        "experiment/mine.yaml",
        "# @package _global_\ndefaults:\n  - override /spectrm: dos\n",
        "experiment=mine",
        ["experiment/mine", "spectrm"],
    ),
    "no YAML": (
        "experiment/mine.yaml",
        "# @package _global_\nsource: {path: [",
        "experiment=mine",
        ["mine.yaml", "line 2"],
    ),
    "doubled group": (
        "source/mine.yaml",
        "source: {path: /x.zarr}",
        "source=mine",
        ["source/mine.yaml", "leave out the line `source:`"],
    ),
    "own group": (
        "lab/mine.yaml",
        "path: /x.zarr",
        "+lab=mine",
        ["lab"],
    ),
    "name of ours": (
        "spectrum/dos.yaml",
        "width: 1",
        "spectrum=dos",
        ["spectrum/dos.yaml", "rename"],
    ),
    "own config.yaml": ("config.yaml", "source: {path: /x}", X, ["config.yaml", "experiment=NAME"]),
}


@pytest.mark.parametrize("name", FILES)
def test_mistakes_in_files(name: str, tmp_path: Path) -> None:
    file, text, override, words = FILES[name]
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(Misuse) as caught:
        compose([override], str(tmp_path))
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "object_type" not in message and "Error" not in message


def test_a_config_directory_that_is_not_there(tmp_path: Path) -> None:
    for call in (compose, compose_many):
        with pytest.raises(Misuse, match=r"--config-dir.*nowhere"):
            call([X], str(tmp_path / "nowhere"))


def test_an_override_must_be_text() -> None:
    with pytest.raises(Misuse, match="got 3"):
        compose([3])  # type: ignore[list-item]
