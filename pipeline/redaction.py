"""What must never be shown: credentials, in storage options, in the environment, in URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pipeline.errors import Misuse

HIDDEN = "***"
OPEN = {"endpoint", "endpoint_url", "aws_endpoint", "region", "aws_region", "bucket", "container"}
"""Options that say where data lies, not who may read it: a message is clearer with them."""
SECRET_NAME = re.compile(r"(AWS|AZURE|GOOGLE|GCP)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD)")
OPTIONS = re.compile(r"storage_options.*", re.DOTALL)
SHORTEST = 4
"""Shorter text is no secret, and would be found everywhere."""


def list_secrets(options: Mapping[str, Any]) -> Iterator[str]:
    """List the texts among storage options that nobody else may see."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from list_secrets(value)
        elif isinstance(value, str) and name.lower() not in OPEN and is_telling(value):
            yield value


def is_telling(text: str) -> bool:
    """Whether a text may be a secret: long enough, and no switch."""
    return len(text) >= SHORTEST and text.lower() not in ("true", "false")


def list_environment() -> list[str]:
    """List the credentials in the environment."""
    return [v for k, v in os.environ.items() if SECRET_NAME.match(k) and len(v) >= SHORTEST]


def hide(text: str, secrets: Iterable[str]) -> str:
    """Replace secrets in a text, and whoever is named before the `@` of a URL."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return re.sub(r"(?<=://)[^/@\s]+@", f"{HIDDEN}@", text)


def hide_arguments(words: Iterable[str]) -> list[str]:
    """Cut storage options out of a command line, however they were given."""
    return [hide(OPTIONS.sub(f"storage_options={HIDDEN}", word), ()) for word in words]


def list_given(words: Iterable[str]) -> list[str]:
    """List what a command line says in storage options: the texts that may be secrets."""
    found = []
    for word in words:
        cut = OPTIONS.search(word)
        given = cut[0].partition("=")[2] or cut[0].partition(":")[2] if cut else ""
        found += [given, *re.split(r"[{}\[\]:,'\"\s]+", given)]
    return [text for text in found if is_telling(text)]


@contextmanager
def silent_about(
    overrides: Sequence[str], nested: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Keep what was given as storage options out of every refusal."""
    try:
        yield
    except Misuse as error:
        secrets = list_given(map(str, overrides))
        for group in (nested or {}).values():
            if isinstance(group, Mapping):
                given = group.get("storage_options")
                secrets += list_secrets(given) if isinstance(given, Mapping) else [str(given)]
        if not secrets:
            raise
        raise Misuse(hide(str(error), secrets)) from None  # the cause would tell
