"""The command line, taken apart: a verb, its target, its flags, and overrides for Hydra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.checks import find_nearest
from pipeline.errors import Misuse
from pipeline.redaction import hide_arguments

__all__ = ["OPTIONS", "VERBS", "Arguments", "Flag", "Verb", "keep_to_groups", "read_arguments"]


@dataclass(frozen=True)
class Flag:
    """One flag: how it is typed, what it takes (None, `DIR` or `N`), and what it does."""

    name: str
    takes: str | None
    meaning: str
    short: str | None = None


OPTIONS = "sink.storage_options"
"""What every verb that opens an output takes: how its store is opened is never recorded."""
CONFIG_DIR = Flag("--config-dir", "DIR", "a directory of your own config groups")
MULTIRUN = Flag("--multirun", None, "run every combination of key=a,b values in turn", "-m")
CFG = Flag("--cfg", None, "print the composed config as YAML, and stop")


@dataclass(frozen=True)
class Verb:
    """One verb: its name, what it does in one line, and what it takes.

    Attributes
    ----------
    name, meaning : str
        As help shows them.
    flags : tuple of Flag
        Its flags, `--help` apart.
    target : bool
        Whether it takes OUT, the folder of a run's output.
    overrides : bool
        Whether it takes overrides.
    example : str
        What follows the verb in its example.
    """

    name: str
    meaning: str
    flags: tuple[Flag, ...]
    target: bool
    overrides: bool
    example: str


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "run",
            "diagonalise, prove and label every matrix of a stack; resumes by itself",
            (CONFIG_DIR, MULTIRUN, CFG),
            target=False,
            overrides=True,
            example="source.path=H.zarr sink.path=bands.zarr spectrum=dos",
        ),
        Verb(
            "plan",
            "what `run` would do: blocks, files, memory, time; writes nothing",
            (CONFIG_DIR, CFG),
            target=False,
            overrides=True,
            example="source.path=H.zarr cluster=local",
        ),
        Verb(
            "status",
            "how far a run is, from its ledger alone",
            (),
            target=True,
            overrides=True,
            example="bands.zarr",
        ),
        Verb(
            "verify",
            "prove a random sample of a run's results again, against the input",
            (
                CONFIG_DIR,
                Flag("--all", None, "every matrix, not a sample"),
                Flag("--sample", "N", "how many matrices (default 1000)"),
                Flag("--seed", "N", "of the draw (default 0)"),
            ),
            target=True,
            overrides=True,
            example="bands.zarr --sample 100",
        ),
        Verb(
            "analyse",
            "redo what is derived from a run's stored results; never solves again",
            (CONFIG_DIR,),
            target=True,
            overrides=True,
            example="bands.zarr spectrum=dos spectrum.width=0.02",
        ),
    )
}
"""The verbs; `pipeline/verbs/NAME.py` has each one's `main(arguments) -> int`."""


@dataclass(frozen=True)
class Arguments:
    """The command line of a verb.

    Attributes
    ----------
    target : str or None
        OUT of `status`, `verify` and `analyse`, as it was typed.
    overrides : list of str
        The overrides, such as `solve.order=descending`.
    config_dir : str or None
        `--config-dir`, as it was typed.
    multirun : bool
        `-m`: run every combination of values.
    cfg : bool
        `--cfg`: print the composed config, and do nothing else.
    flags : dict
        The verb's own flags by name without dashes: an int where the flag takes a number,
        else True. Flags that were not given are absent.
    """

    target: str | None = None
    overrides: list[str] = field(default_factory=list)
    config_dir: str | None = None
    multirun: bool = False
    cfg: bool = False
    flags: dict[str, int | bool] = field(default_factory=dict)


def keep_to_groups(arguments: Arguments, groups: Sequence[str], why: str) -> None:
    """Refuse overrides of other groups: they would be accepted and change nothing.

    Raises
    ------
    Misuse
        Naming the first such override.
    """
    for text in arguments.overrides:
        name = text.lstrip("+~").partition("=")[0]
        if not any(name == group or name.startswith(f"{group}.") for group in groups):
            expected = " and ".join(f"{group}.*" for group in groups)
            shown = hide_arguments([text])[0]
            raise Misuse(f"{why}: got {shown!r}, expected keys of {expected} only")


def read_arguments(verb: Verb, words: Sequence[str]) -> Arguments:
    """Take the words after a verb apart.

    Raises
    ------
    Misuse
        For unknown flags, flags without their value, and a target too few or too many.
    """
    given, rest = read_flags(verb, words)
    target = read_target(verb, rest) if verb.target else None
    if rest and not verb.overrides:
        raise Misuse(
            f"{verb.name}: got {rest[0]!r}\n  expected: nothing after OUT\n"
            f"  remedy:   leave it out; see eigenstream {verb.name} --help"
        )
    own = {k: v for k, v in given.items() if k not in ("config-dir", "multirun", "cfg")}
    return Arguments(
        target=target,
        overrides=rest,
        config_dir=given.get("config-dir"),
        multirun="multirun" in given,
        cfg="cfg" in given,
        flags={k: True if v is None else read_count(k, v) for k, v in own.items()},
    )


def read_flags(verb: Verb, words: Sequence[str]) -> tuple[dict[str, str | None], list[str]]:
    """Separate flags (`--name`, `--name VALUE`, `--name=VALUE`) from the other words."""
    known = {name: flag for flag in verb.flags for name in (flag.name, flag.short) if name}
    given: dict[str, str | None] = {}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        flag = known.get(name)
        if flag is None or (equals and not flag.takes):
            raise explain_flag(verb, word, list(known))
        taken = None
        if flag.takes:
            taken = value if equals else next(waiting, "")
            if not taken:
                raise Misuse(
                    f"{name}: got nothing\n  expected: {name} {flag.takes}\n"
                    f"  remedy:   see eigenstream {verb.name} --help"
                )
        given[flag.name.lstrip("-")] = taken
    return given, rest


def explain_flag(verb: Verb, word: str, known: Sequence[str]) -> Misuse:
    """Explain a flag that the verb does not have."""
    near = find_nearest(word.partition("=")[0], [*known, "--help"])
    remedy = f"did you mean {near}? " if near else ""
    return Misuse(
        f"{verb.name}: unknown flag {word}\n  expected: {' | '.join([*known, '--help'])}\n"
        f"  remedy:   {remedy}see eigenstream {verb.name} --help"
    )


def read_target(verb: Verb, rest: list[str]) -> str:
    """Take OUT, the first word, from the words."""
    if not rest or re.match(r"[+~]*[A-Za-z_]+(\.\w+)*=", rest[0]):
        got = f"{rest[0]!r} instead of OUT" if rest else "no OUT"
        raise Misuse(
            f"{verb.name}: got {got}\n  expected: the folder that `run` printed on its last line\n"
            f"  remedy:   eigenstream {verb.name} {verb.example}"
        )
    return rest.pop(0)


def read_count(name: str, value: str) -> int:
    """Read the number that a flag takes."""
    if value.isascii() and value.isdigit():
        return int(value)
    raise Misuse(
        f"--{name}: got {value!r}\n  expected: a whole number, 0 or more\n"
        f"  remedy:   for example --{name} 100"
    )
