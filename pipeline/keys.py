"""The keys of the schema as a table: name, type, default, and meaning in one line."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, get_args, get_type_hints

from pipeline.checks import MISSING
from pipeline.config import Config


@dataclass(frozen=True)
class Key:
    """One key of the config.

    Attributes
    ----------
    name : str
        With its group, such as `solve.order`.
    hint : object
        Type of the value in the schema.
    kind : str
        What is allowed, in words.
    default : str
        As it is written on the command line.
    meaning : str
        First sentence of its description.
    """

    name: str
    hint: Any
    kind: str
    default: str
    meaning: str

    @property
    def is_text(self) -> bool:
        """Whether any text is allowed, so that `1E234` is text and no number."""
        return self.hint is str or (str in get_args(self.hint) and not self.is_mapping)

    @property
    def is_mapping(self) -> bool:
        """Whether the user names the keys below it (`source.isel.k1`)."""
        return getattr(self.hint, "__origin__", None) is dict


@cache
def list_keys() -> dict[str, Key]:
    """List all keys by name, in the order of the schema."""
    keys = {}
    for group, kind in get_type_hints(Config).items():
        about = read_attributes(inspect.getdoc(kind) or "")
        hints = get_type_hints(kind)
        for f in fields(kind):
            plain = f.default_factory is NO_DEFAULT
            default = f.default if plain else f.default_factory()  # type: ignore[operator]  # see plain
            words, meaning = about[f.name]
            name = f"{group}.{f.name}"
            keys[name] = Key(name, hints[f.name], words, show_default(default), meaning)
    return keys


def read_attributes(doc: str) -> dict[str, tuple[str, str]]:
    """Read the `Attributes` section of a numpydoc docstring: name -> (type, first sentence)."""
    section = doc.partition("Attributes\n----------\n")[2]
    entries = re.findall(r"^(\S[^\n]*?) : ([^\n]+)\n((?:[ ]{4}[^\n]+\n?)+)", section, re.MULTILINE)
    found: dict[str, tuple[str, str]] = {}
    for names, words, text in entries:
        sentence = re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(text.split()))[0]
        found |= {name.strip(): (words, sentence) for name in names.split(",")}
    return found


def show_default(value: Any) -> str:
    """Write a default as it is typed."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if value == MISSING:
        return "required"
    return "{}" if value == {} else str(value)


def describe() -> str:
    """Write the table of all keys in Markdown, as it stands in docs/configuration.md."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in list_keys().values():
        kind, meaning = (text.replace("|", r"\|") for text in (key.kind, key.meaning))
        rows.append(f"| `{key.name}` | {kind} | `{key.default}` | {meaning} |")
    return "\n".join(rows) + "\n"
