"""Quoting: how text must be written so that Hydra's grammar, and a shell, hand it on unchanged."""

from __future__ import annotations

import re
import shlex

PLAIN = re.compile(r"(?:[A-Za-z_/]|\.{1,2}/)[A-Za-z0-9_./-]*")
"""Text that needs no quotes; Hydra's grammar knows ASCII letters only."""
WORDS = ("null", "true", "false", "inf", "nan")


def escape(text: str) -> str:
    r"""Write text so that OmegaConf takes `${` for two characters, not for an interpolation.

    OmegaConf reads `\${` as `${`, and halves the backslashes before it; where text
    holds no `${` it leaves backslashes alone.
    """
    if "${" not in text:
        return text
    return re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + r"\${", text)


def quote(text: str) -> str:
    r"""Write text as a value of Hydra's override grammar.

    Within double quotes everything stands for itself, except that `"` is written
    `\"`, backslashes before a quote are doubled, and `${` is written `\${`.

    Examples
    --------
    >>> print(quote("/d/a=b, (é).zarr"))
    "/d/a=b, (é).zarr"
    >>> print(quote("/data/plain.zarr"))
    /data/plain.zarr
    """
    if PLAIN.fullmatch(text) and text.lower() not in WORDS:
        return text
    inner = re.sub(r'(\\*)"', lambda m: m[1] * 2 + r"\"", escape(text))
    inner = re.sub(r"\\+\Z", lambda m: m[0] * 2, inner)
    return f'"{inner}"'


def show_argument(key: str, text: str) -> str:
    """Write `key=text` as it is typed in a shell.

    Examples
    --------
    >>> print(show_argument("source.path", "/d/a b.zarr"))
    'source.path="/d/a b.zarr"'
    """
    return shlex.quote(f"{key}={quote(text)}")
