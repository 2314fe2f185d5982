"""The help pages: made from the verbs' table, the config folder and the schema; no Hydra."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from pipeline.arguments import VERBS, Verb
from pipeline.groups import list_groups
from pipeline.keys import list_keys

ABOUT = """\
Diagonalise stacks of Hermitian matrices too large for memory, prove each answer, and
write labelled xarray results."""
QUOTING = """\
Values with spaces, '=', ',', brackets or letters other than a-z take double quotes, and
the whole argument single ones, so that the shell leaves it alone:
  'source.path="/d/a=b, (é).zarr"'
Lists and mappings: 'solve.subset=[0,4]'  'source.isel={k1: 0, k2: [1, 2]}'  source.isel.k1=0
Switch off with null: source.variable=null"""
CODES = """\
0 all well; 1 more matrices failed than run.max_bad allows; 2 misuse, nothing written;
3 interrupted, resumable; 4 internal error, or storage or workers lost"""
WIDTH = 96


def describe_program() -> str:
    """Write the page of `eigenstream --help`."""
    return join(
        "Usage: eigenstream VERB [OUT] [FLAGS] [KEY=VALUE …]     (or: python -m pipeline VERB …)",
        ABOUT,
        section("Verbs", align((verb.name, verb.meaning) for verb in VERBS.values())),
        describe_groups(),
        section("Examples", examples("run")),
        section("Flags", describe_flags(VERBS["run"], ("--version", "the version"))),
        section("Quoting", QUOTING),
        section("Exit codes", CODES),
        "`eigenstream VERB --help` shows one verb with all config keys.",
    )


def describe_verb(verb: Verb) -> str:
    """Write the page of `eigenstream VERB --help`."""
    words = ["eigenstream", verb.name]
    words += ["OUT"] if verb.target else []
    words += ["[FLAGS]"] if verb.flags else []
    words += ["[KEY=VALUE …]"] if verb.overrides else []
    parts = [f"Usage: {' '.join(words)}", f"{verb.name}: {verb.meaning}."]
    if verb.target:
        parts.append("OUT is the folder that `run` printed on its last line.")
    parts.append(section("Examples", examples(verb.name)))
    if verb.flags:
        parts.append(section("Flags", describe_flags(verb)))
    if verb.overrides:
        parts += [describe_groups(), describe_keys(), section("Quoting", QUOTING)]
    return join(*parts, section("Exit codes", CODES))


def describe_groups() -> str:
    """Write the config groups and their options."""
    lines = align((name, " | ".join(options)) for name, options in list_groups().items())
    return section("Config groups (GROUP=OPTION)", lines)


def describe_keys() -> str:
    """Write all config keys with their defaults and meanings."""
    lines = align((f"{k.name}={k.default}", k.meaning) for k in list_keys().values())
    return section("Config keys, with their defaults", lines)


def describe_flags(verb: Verb, *more: tuple[str, str]) -> str:
    """Write the flags of a verb."""
    rows = {}
    for flag in verb.flags:
        name = f"{flag.short}, {flag.name}" if flag.short else flag.name
        rows[f"{name} {flag.takes}" if flag.takes else name] = flag.meaning
    rows["-h, --help"] = "this page, or that of a verb"
    return align([*rows.items(), *more])


def examples(name: str) -> str:
    """Write the examples of a verb."""
    lines = [f"eigenstream {name} {VERBS[name].example}"]
    if name in ("run", "plan"):
        lines.insert(0, f"eigenstream {name} +experiment=spectra      # on shipped data")
    return "\n".join(lines)


def align(rows: Iterable[tuple[str, str]]) -> str:
    """Write rows of two columns, the second one wrapped."""
    rows = list(rows)
    first = max((len(name) for name, _ in rows), default=0) + 2
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, WIDTH - first - 2) or [""]
        lines.append(f"{name:<{first}}{wrapped[0]}".rstrip())
        lines += [" " * first + line for line in wrapped[1:]]
    return "\n".join(lines)


def section(title: str, text: str) -> str:
    """Write a titled section, indented."""
    return f"{title}:\n{textwrap.indent(text, '  ')}"


def join(*parts: str) -> str:
    """Join sections by empty lines."""
    return "\n\n".join(parts)
