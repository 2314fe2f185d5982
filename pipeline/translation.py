"""Hydra's, OmegaConf's and YAML's exceptions, in words for the user.

Their own messages name internals, differ from one exception type to the next, and seldom
say what would work. The exceptions are told apart by what they carry, so that neither
library is needed here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pipeline.checks import find_nearest, refuse
from pipeline.config import find_enum
from pipeline.errors import Misuse
from pipeline.groups import EXPERIMENT
from pipeline.keys import Key, list_keys
from pipeline.mistakes import SEE, explain_option, explain_unknown
from pipeline.quoting import show_argument


def explain_composition(error: Exception, overrides: Sequence[str]) -> Misuse:
    """Explain what Hydra, OmegaConf or YAML found wrong in values or files."""
    chain = follow(error)
    for inner in chain:
        if isinstance(inner, Misuse):  # from a resolver or a check of ours
            return inner
    file = re.search(r"In '([^']+)'", " ".join(map(str, chain)))
    where = f"{file[1]}.yaml: " if file else ""
    lost = next((e for e in chain if getattr(e, "missing_cfg_file", None)), None)
    if lost is not None:
        return explain_lost(lost, where)
    marked: Any = next((e for e in chain if getattr(e, "problem_mark", None)), None)
    if marked is not None:
        place = str(marked.problem_mark).strip()
        return refuse(place, str(marked.problem), "YAML", "mend this line of the file")
    keyed = next((e for e in chain if getattr(e, "full_key", None)), None)
    if keyed is None:
        return Misuse(f"{where}{first_lines(chain[-1])}\n  remedy:   {SEE}")
    return explain_key_error(keyed, where, overrides)


def follow(error: BaseException) -> list[BaseException]:
    """List an exception and what led to it."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def first_lines(error: BaseException) -> str:
    """Take the part of a message before Hydra's search path and pointers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("full_key", "object_type", "See "))]
    return " ".join(kept[:3]) or type(error).__name__


def explain_lost(error: Any, where: str) -> Misuse:
    """Explain a defaults list that names a file which is not there."""
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    options = error.options or []
    return explain_option(group or "defaults", choice, options, where)


def explain_key_error(error: Any, where: str, overrides: Sequence[str]) -> Misuse:
    """Explain an OmegaConf error that names its key."""
    name = re.sub(r"\[.*", "", str(error.full_key))  # of a list: without the position
    keys, kind = list_keys(), type(error).__name__
    if "Interpolation" in kind or kind == "GrammarParseError":
        remedy = r"write \${ where the two characters are meant"
        return refuse(
            f"{where}{name}", first_lines(error), "an interpolation ${…} that exists", remedy
        )
    if name not in keys and not any(name.startswith(f"{k}.") for k in keys):
        return explain_misplaced(name, where)
    key = keys.get(name) or keys[".".join(name.split(".")[:2])]
    given = [
        text.partition("=")[2] for text in overrides if text.lstrip("+").startswith(f"{name}=")
    ]
    got = given[-1] if given and not where else repr(getattr(error, "value", None))
    return refuse(f"{where}{name}", got, key.kind, suggest_value(key, name, got))


def suggest_value(key: Key, name: str, got: str) -> str:
    """Suggest what to write instead of a value of the wrong type."""
    choice = find_enum(key.hint)
    if choice is not None:
        near = find_nearest(got.strip("'\""), [c.value for c in choice])
        if got in ("False", "True"):
            return "YAML reads on, off, yes and no as true or false: put the word in quotes"
        return f"did you mean {name}={near}?" if near else "choose one of these"
    if key.is_text:
        return f"type {show_argument(name, got)}"
    return SEE


def explain_misplaced(name: str, where: str) -> Misuse:
    """Explain a key in a file that is outside the schema, most often for want of a header."""
    group, *rest = name.split(".")
    known = {key.split(".")[0] for key in list_keys()}
    if group not in known and where.startswith(f"{group}/"):
        return refuse(
            where.removesuffix(": "),
            "a file without a package line",
            f"`# @package _global_` as its first line: else what it says is put below `{group}`",
            "add that line at the top of the file",
        )
    if rest and rest[0] in known:
        return refuse(
            f"{where}{name}",
            f"a {rest[0]!r} within {group!r}",
            f"the keys of {group} themselves: what the file says already stands below {group}",
            f"leave out the line `{rest[0]}:`, or move the file to {EXPERIMENT}/",
        )
    return explain_unknown(name, known, where)
