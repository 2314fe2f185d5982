"""Which distribution owns the top-level package `kernels`: another one has that name, too.

Two distributions that install one package overwrite each other without a word from pip,
and a folder `kernels/` in the working directory comes first on Python's path.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

MARK = '__distribution__ = "eigenstream"'
NAME = "eigenstream"
MEND = f"pip install --force-reinstall --no-deps {NAME}"


def check_kernels(package: str = "kernels") -> None:
    """Refuse to go on with a package `kernels` that is not ours.

    The package is found and its first file read, but it is not imported.

    Raises
    ------
    ImportError
        Naming the culprit and how to mend it.
    """
    spec = find_package(package)
    path = Path(spec.origin) if spec and spec.origin else None
    if path is not None and path.is_file() and MARK in path.read_text(errors="replace"):
        return
    raise ImportError(explain_foreign(package, path, spec))


def is_program() -> bool:
    """Whether Python is starting the program itself, which reports a foreign package in its own
    way (`pipeline.__main__`), and not a script that imports `pipeline`."""
    return sys.argv[:1] == ["-m"] or Path(sys.argv[0] if sys.argv else "").name == NAME


def find_package(package: str) -> ModuleSpec | None:
    """Find a top-level package without importing it."""
    try:
        return find_spec(package)
    except ValueError:  # put into sys.modules by hand, without a spec
        return None


def explain_foreign(package: str, path: Path | None, spec: ModuleSpec | None) -> str:
    """Say whose package was found instead of ours, and what to do."""
    if path is None:
        folders = list(spec.submodule_search_locations or []) if spec else []
        found = f"only the folder {folders[0]}" if folders else "nothing"
        return f"eigenstream's package `{package}` is missing: found {found}.\n  remedy: {MEND}"
    owner = find_owner(path)
    if owner:
        return (
            f"the package `{package}` at {path.parent} belongs to the distribution {owner}, which "
            f"overwrote or hides the one of eigenstream.\n"
            f"  remedy: pip uninstall {owner.split()[0]}; {MEND}\n"
            f"  If you need both, give each an environment of its own."
        )
    return (
        f"{path} hides the package `{package}` of eigenstream: it comes first on Python's path "
        f"({path.parent.parent}).\n  remedy: rename or move it, or start from another directory "
        f"with PYTHONPATH unset; if it lies in site-packages: {MEND}"
    )


def find_owner(path: Path) -> str | None:
    """Find the distribution, other than ours, that installed a file: its name and version."""
    from importlib.metadata import distributions  # slow, and needed only here

    for distribution in distributions(path=[str(path.parent.parent), *sys.path]):
        for file in distribution.files or ():
            if file.parts[0] == path.parent.name and file.name == path.name:
                name = distribution.metadata["Name"]
                if name != NAME and Path(str(distribution.locate_file(file))) == path:
                    return f"{name} {distribution.version}"
    return None
