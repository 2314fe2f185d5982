"""What to tell a user whose overrides do not fit Hydra's grammar, the groups or the schema.

Each `explain_…` and `refuse_…` returns the finished exception, each `check_…` raises it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.checks import find_nearest, refuse
from pipeline.errors import Misuse
from pipeline.groups import EXPERIMENT
from pipeline.keys import Key, list_keys
from pipeline.quoting import show_argument

SEE = "`eigenstream run --help` lists all keys and groups"
HYDRA_KEYS = {
    "run.dir": "sink.path=DIR chooses where the output goes",
    "sweep.dir": "sink.path=DIR chooses where the output goes",
    "searchpath": "--config-dir DIR adds a directory of config groups",
    "mode": "-m runs every combination of values",
    "launcher": "-m runs one member after another",
}
"""What takes the place of keys of Hydra itself."""


def explain_syntax(overrides: Sequence[str], at: int, reason: str) -> Misuse:
    """Explain an override that Hydra's grammar refuses."""
    text = overrides[at]
    name, equals, value = text.partition("=")
    name = name.lstrip("+~")
    if not equals:
        return explain_word(overrides, at)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$/@:-]*", name):
        near = find_nearest(name, list_keys())
        remedy = f"did you mean {near}={value}?" if near else SEE
        if not name.isascii():
            remedy = "set names with other letters in a YAML file: see docs/configuration.md"
        return refuse(text, f"the key {name!r}", "KEY=VALUE, the key in ASCII letters", remedy)
    key = list_keys().get(name)
    if key is not None and not key.is_text:
        return refuse(name, value, key.kind, f"{quoting_hint(reason)}{SEE}")
    odd = sorted({c for c in value if not re.match(r"[A-Za-z0-9_./-]", c)})
    return refuse(
        name,
        value,
        "text in quotes, because it contains " + " ".join(map(repr, odd)),
        f"type {show_argument(name, value)}",
    )


def quoting_hint(reason: str) -> str:
    """Take the part of Hydra's own reason that a user can read."""
    line = reason.strip().splitlines()[0] if reason.strip() else ""
    return f"{line}; " if line.startswith(("mismatched", "missing", "extraneous")) else ""


def explain_word(overrides: Sequence[str], at: int) -> Misuse:
    """Explain an argument without `=`: most often the rest of a value with a space in it."""
    text = overrides[at]
    remedy = SEE
    if text.lstrip("+~") in list_keys():
        remedy = f"give it a value: {text}=VALUE"
    elif at and "=" in overrides[at - 1]:
        last = at + 1
        while last < len(overrides) and "=" not in overrides[last]:
            last += 1
        name, _, value = overrides[at - 1].partition("=")
        whole = " ".join([value, *overrides[at:last]])
        remedy = f"if it belongs to the value before it, type {show_argument(name, whole)}"
    return refuse(text, "an argument without '='", "KEY=VALUE", remedy)


def explain_sweep(name: str, value: str, is_group: bool) -> Misuse:
    """Explain several values where one is wanted."""
    key = list_keys().get(name)
    remedy = "to run each of them in turn, add -m"
    if key is not None and key.is_text:
        remedy += f"; as one text, type {show_argument(name, value)}"
    elif not is_group and (key is None or "list" in key.kind):
        remedy += f"; for a list, type {shlex.quote(f'{name}=[{value}]')}"
    return refuse(name, f"several values: {value}", "one value", remedy)


def refuse_override(value: Any) -> Misuse:
    """Refuse an override that is not text."""
    remedy = "in Python, other values go into keywords: run(solve={'largest': 3})"
    return refuse("overrides", repr(value), "text such as 'solve.largest=3'", remedy)


def refuse_interval(line: str) -> Misuse:
    """Refuse a sweep that stands for no list of values."""
    return refuse(line, "an interval", "values that can be listed", "use range(start,stop,step)")


def refuse_hydra(name: str) -> Misuse:
    """Refuse keys of Hydra itself: it makes no directories, logs or jobs here."""
    near = find_nearest(re.split("[./]", name, maxsplit=1)[-1], HYDRA_KEYS)
    remedy = HYDRA_KEYS[near] if near else "leave it out"
    return refuse(name, "a key of Hydra itself", "a key of eigenstream", f"{remedy}; {SEE}")


def refuse_delete(name: str, is_group: bool) -> Misuse:
    """Refuse `~key`: every key has a value."""
    how = f"{name}=none" if is_group else f"{name}=null"
    return refuse(f"~{name}", "a deletion", "KEY=VALUE", f"to switch it off, try {how}")


def refuse_package(line: str, name: str) -> Misuse:
    """Refuse `group@package=option`."""
    return refuse(line, "a package (@)", f"{name}=OPTION", "leave out @ and what follows it")


def refuse_empty(name: str) -> Misuse:
    """Refuse `key=` without a value."""
    kind = list_keys()[name].kind if name in list_keys() else "a value"
    return refuse(name, "nothing after '='", kind, f"give a value, or leave {name} out")


def refuse_missing() -> Misuse:
    """Refuse a run without input."""
    return refuse(
        "source.path",
        "nothing",
        "the path of a Zarr store or .npy file",
        "source.path=PATH; for a first try, +experiment=spectra runs on shipped data",
    )


def refuse_function() -> Misuse:
    """Refuse the kind `function` without one."""
    expected = "MODULE:NAME or FILE.py:NAME, a function from k to matrices"
    remedy = "for example source.function=graphene.py:hamiltonian (docs/sources.md)"
    return refuse("source.function", "nothing", expected, remedy)


def refuse_experiment() -> Misuse:
    """Refuse an experiment on top of a finished run."""
    expected = "keys of the stages to redo, such as spectrum.width"
    return refuse(EXPERIMENT, "an experiment, for a finished run", expected, "set the keys")


def refuse_idle(override: str) -> Misuse:
    """Refuse a setting that nothing would read."""
    expected = "a method with it: no spectrum is asked for"
    return refuse(override, "spectrum.method=null", expected, "add spectrum=dos")


def refuse_nested(group: str, value: Any) -> Misuse:
    """Refuse a nested value that is neither an option nor a mapping of keys."""
    expected = "the name of an option, or a mapping of keys to values"
    return refuse(group, repr(value), expected, f"for example {group}={{'KEY': VALUE}}")


def check_option(group: str, value: Any, options: Sequence[str]) -> None:
    """Refuse an option that the group does not have; several at once only for experiments."""
    for choice in value if isinstance(value, list) and group == EXPERIMENT else [value]:
        if choice in options or (choice is None and group == EXPERIMENT):
            continue
        raise explain_option(group, str("null" if choice is None else choice), options)


def explain_option(group: str, choice: str, options: Sequence[str], where: str = "") -> Misuse:
    """Explain an option that the group does not have."""
    near = find_nearest(choice, options)
    remedy = f"did you mean {group}={near}? " if near else ""
    remedy += f"Your own options: --config-dir DIR with DIR/{group}/NAME.yaml"
    return Misuse(
        f"{where}unknown option {group}={choice}\n  expected: {' | '.join(options)}\n"
        f"  remedy:   {remedy}"
    )


def check_key(name: str, value: Any, groups: Iterable[str]) -> Key | None:
    """Find the key that a name means; None for a whole group given as a mapping."""
    keys = list_keys()
    if name in keys:
        return keys[name]
    parent = ".".join(name.split(".")[:2])
    if parent in keys and keys[parent].is_mapping:
        return keys[parent]
    inner = [key.split(".", 1)[1] for key in keys if key.startswith(f"{name}.")]
    if not inner:
        raise explain_unknown(name, groups)
    if not isinstance(value, dict):
        expected = f"one of its keys: {', '.join(inner)}"
        raise refuse(name, f"{value!r} for the whole group", expected, f"{name}.{inner[0]}=VALUE")
    for key in value:
        if f"{name}.{key}" not in keys:
            raise explain_unknown(f"{name}.{key}", groups)
    return None


def explain_unknown(name: str, groups: Iterable[str], where: str = "") -> Misuse:
    """Explain a key that is not in the schema, by the nearest one that is."""
    near = find_near_key(name, groups)
    remedy = f"did you mean {near}? " if near else ""
    return Misuse(
        f"{where}unknown key {name}\n  expected: a key or group of eigenstream\n"
        f"  remedy:   {remedy}{SEE}"
    )


def find_near_key(name: str, groups: Iterable[str]) -> str | None:
    """Find what a mistyped key most likely means; a key without its group may mean several."""
    keys = list_keys()
    leaf = name.rsplit(".", 1)[-1]
    same = [key for key in keys if key.split(".")[1] == leaf]
    near = find_nearest(name, [*keys, *groups, *(key.split(".")[0] for key in keys)])
    if same and ("." not in name or near not in same):
        return " or ".join(same[:3])
    if near is None:
        leaves = {key.split(".")[1]: key for key in reversed(keys)}
        leaf_near = find_nearest(leaf, leaves)
        return leaves[leaf_near] if leaf_near else None
    return near
