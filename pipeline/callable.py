"""Modules that can be called: `pipeline.run(…)` and `pipeline.plan(…)`.

`pipeline.run` is the module where the main job is to be read, and it is also the name
under which users expect a function. Python binds a submodule to its package's
attribute as soon as it is imported, so the two cannot be kept apart; instead the module
is given a class of its own, whose call goes to the function of `pipeline.api` with the
same name. The module ends with the line `make_callable(__name__)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module whose call is that of the function in `pipeline.api` with its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        api = import_module("pipeline.api")
        return getattr(api, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Make an imported module callable."""
    sys.modules[name].__class__ = CallableModule
