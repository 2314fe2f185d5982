"""The command line: verbs, flags, help, and exit codes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.__main__ import main
from pipeline.arguments import VERBS, Arguments, read_arguments
from pipeline.config import compose, find_enum
from pipeline.errors import Interrupted, Misuse, StorageLost
from pipeline.groups import list_groups
from pipeline.guard import guard, run_many
from pipeline.keys import describe, list_keys

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "hydra", "omegaconf", "dask", "xarray", "zarr", "numpy", "kernels")
Install = Callable[[Callable[[Arguments], int]], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a stand-in in the place of the verb `run`."""

    def put(function: Callable[[Arguments], int]) -> None:
        module = ModuleType("pipeline.verbs.run")
        module.main = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pipeline.verbs.run", module)

    return put


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "-h"], ["analyse", "OUT", "--help"], ["--version"]]
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys; from pipeline.__main__ import main; code = main(sys.argv[1:]);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert done.stdout.strip()


def test_importing_the_package_and_its_schema_loads_nothing_heavy() -> None:
    code = f"import sys, pipeline.config; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_help_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    assert all(verb in page and VERBS[verb].meaning in page for verb in VERBS)
    for group, options in list_groups().items():
        assert group in page and " | ".join(options) in page
    for words in (
        "--config-dir DIR",
        "-m, --multirun",
        "--cfg",
        "--version",
        "+experiment=spectra",
    ):
        assert words in page
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_and_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    page = capsys.readouterr().out
    verb = VERBS[name]
    assert verb.meaning in page and f"eigenstream {name} {verb.example}" in page
    assert all(flag.name in page for flag in verb.flags)
    if verb.overrides:
        assert all(f"{key} " in page or f"{key}=" in page for key in list_keys())
    assert find_spec(f"pipeline.verbs.{name}") is not None


def test_no_words_at_all_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "Verbs:" in captured.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rnu"], "did you mean eigenstream run?"),
        (["analyze"], "did you mean eigenstream analyse?"),
        (["stat"], "did you mean eigenstream status?"),
        (["frobnicate"], "expected: run | plan"),
        (["source.path=x"], "did you mean eigenstream run?"),
        (["--cfg"], "did you mean eigenstream run?"),
        (["run", "--multrun"], "did you mean --multirun?"),
        (["run", "--sample", "3"], "unknown flag --sample"),
        (["run", "--cfg=job"], "unknown flag --cfg=job"),
        (["run", "--config-dir"], "expected: --config-dir DIR"),
        (["status"], "got no OUT"),
        (["status", "out.zarr", "more"], "got 'more'"),
        (["analyse", "spectrum.width=1"], "instead of OUT"),
        (["verify", "out.zarr", "--sample", "few"], "--sample: got 'few'"),
        (["run", "--cfg", "slove.order=ascending"], "did you mean solve.order?"),
        (["run", "--cfg", "+experiment=spectre"], "did you mean experiment=spectra?"),
        (["run", "-m", "--cfg", "source.path=x", "plan.limit=1,b"], "plan.limit"),
        (["run", "--cfg", "--config-dir=/nowhere"], "--config-dir: got /nowhere"),
    ],
)
def test_misuse_exits_2_with_one_message(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert expected in captured.err
    assert captured.err.startswith("eigenstream: ") and "Traceback" not in captured.err


def test_arguments_are_taken_apart() -> None:
    words = ["--config-dir", "my conf", "-m", "a.b=1", "~c", "+d=2"]
    assert read_arguments(VERBS["run"], words) == Arguments(
        overrides=["a.b=1", "~c", "+d=2"], config_dir="my conf", multirun=True
    )
    words = ["--sample=10", "/d/a=b.zarr", "--all", "--seed", "3", "cluster=serial"]
    assert read_arguments(VERBS["verify"], words) == Arguments(
        target="/d/a=b.zarr",
        overrides=["cluster=serial"],
        flags={"sample": 10, "all": True, "seed": 3},
    )


def test_cfg_prints_an_experiment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "--cfg", "+experiment=spectra", "solve.vectors=true"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/copy.yaml").write_text(text)
    copy = compose(["experiment=copy"], str(tmp_path))
    assert copy == compose(["+experiment=spectra", "solve.vectors=true"])
    assert main(["run", "-m", "--cfg", "+experiment=spectra", "plan.limit=3,4"]) == 0
    assert capsys.readouterr().out.count("limit:") == 2


def test_a_verb_gets_its_arguments_and_its_log_is_shown(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Arguments] = []

    def verb(arguments: Arguments) -> int:
        seen.append(arguments)
        logging.getLogger("eigenstream").info("at work")
        logging.getLogger("eigenstream").debug("in detail")
        return 1

    install(verb)
    assert main(["run", "solve.vectors=true"]) == 1
    assert seen == [Arguments(overrides=["solve.vectors=true"])]
    assert capsys.readouterr().err == "at work\n"
    assert logging.getLogger("eigenstream").handlers == []


ENDS = [
    (Misuse("bad key"), 2, "eigenstream: bad key\n"),
    (Interrupted("go on with the same command"), 3, "eigenstream: go on with the same command\n"),
    (KeyboardInterrupt(), 3, "eigenstream: interrupted\n"),
    (StorageLost("disk gone"), 4, "eigenstream: disk gone\n"),
    (ZeroDivisionError("a\nb"), 4, "eigenstream: internal error: ZeroDivisionError: a b ("),
    (BrokenPipeError("a worker's"), 4, "eigenstream: internal error: BrokenPipeError"),
]


@pytest.mark.parametrize(("error", "code", "message"), ENDS)
def test_exceptions_become_exit_codes(
    error: BaseException,
    code: int,
    message: str,
    install: Install,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def verb(arguments: Arguments) -> int:
        raise error

    install(verb)
    assert main(["run"]) == code
    err = capsys.readouterr().err
    assert err.startswith(message) and "Traceback" not in err
    if code == 4 and not isinstance(error, StorageLost):
        assert "EIGENSTREAM_TRACEBACK=1" in err and err.count("\n") == 1
        error.log_file = "/out.log"  # type: ignore[attr-defined]
        assert main(["run"]) == code
        assert "the traceback is in /out.log" in capsys.readouterr().err
    monkeypatch.setenv("EIGENSTREAM_TRACEBACK", "1")
    assert main(["run"]) == code
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code"), [(["run"], 3), (["--help"], 0)])
def test_a_reader_that_leaves(words: list[str], code: int) -> None:
    program = (
        "import sys, types\n"
        "from pipeline.__main__ import main\n"
        "verb = sys.modules['pipeline.verbs.run'] = types.ModuleType('run')\n"
        "verb.main = lambda arguments: print('x' * 100_000, flush=True) or 0\n"
        "sys.stdin.readline()\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, *words]
    # unbuffered, a short page would break while it is printed, not when it is flushed
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as done:
        assert done.stdout is not None
        done.stdout.close()
        done.stdout = None
        _, err = done.communicate(b"\n", timeout=60)
    assert (done.returncode, err) == (code, b"")


def test_a_multirun_goes_on_and_ends_with_the_worst_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done: list[int] = []

    def run_one(member: int) -> int:
        done.append(member)
        if member == 2:
            raise Misuse("second is wrong")
        if member == 5:
            raise Interrupted("stopped")
        return member

    assert run_many([1, 2, 0], run_one) == 2
    assert done == [1, 2, 0]
    assert "second is wrong" in capsys.readouterr().err
    assert run_many([0, 5, 1, 1], run_one) == 3
    assert done == [1, 2, 0, 0, 5]
    assert "2 runs not started" in capsys.readouterr().err
    assert run_many([], run_one) == 0
    assert guard(lambda: 7) == 7


def test_the_table_in_the_docs_is_that_of_the_schema() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert describe() in page
    for group, options in list_groups().items():
        assert f"| `{group}` | " in page
        assert all(f"`{option}`" in page for option in options)


def test_every_key_says_what_it_takes() -> None:
    for key in list_keys().values():
        assert key.meaning and key.meaning.endswith("."), key.name
        choice = find_enum(key.hint)
        if choice is not None:
            words = [c.value for c in choice]
            assert [w for w in key.kind.split(" | ") if w != "null"] == words, key.name
        assert ("null" in key.kind) == (
            type(None) in getattr(key.hint, "__args__", ()) or key.hint is Any
        ), key.name
