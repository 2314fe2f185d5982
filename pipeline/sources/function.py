"""Matrices from a Python function of the user's: `hamiltonian(k)` on a mesh or a path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse, ReadError
from pipeline.sources.computed import Computed
from pipeline.sources.corners import read_corners
from pipeline.sources.points import Points, lay_mesh, lay_path

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

COUNT = 100
"""Points on the first section of a path, unless `source.points` says."""
TRIED = 8
"""Points with which the function is tried."""
ALIKE = 1e-8
"""Relative difference up to which a matrix counts as independent of the points beside it."""


@dataclass(frozen=True)
class Formula:
    """A function in a file, called with a tile of points; loaded again in every process.

    Attributes
    ----------
    module, name : str
        The module's name, and the function's in it.
    file : str
        Where the module lies.
    parameters : dict
        Further arguments.
    n, dtype : int, numpy.dtype
        Of the matrices; None on trial: as the function returns them.
    """

    module: str
    name: str
    file: str
    parameters: dict[str, Any]
    n: int | None = None
    dtype: np.dtype[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "function"}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        found = getattr(load_module(self.module, self.file), self.name, None)
        if not callable(found):
            raise Misuse(f"source.function: there is no function {self.name!r} in {self.file}")
        return found  # type: ignore[no-any-return]  # it is callable, and no more is known

    def call(self, k: NDArray[np.float64]) -> NDArray[Any]:
        """Call the function as it is."""
        return np.asarray(self.function(k, **self.parameters))

    def __call__(self, k: NDArray[np.float64]) -> NDArray[Any]:
        """Call it on a tile; what goes wrong is an error of the input, which costs a block."""
        where = f"source.function={self.module}:{self.name} on {len(k)} points from {k[0].tolist()}"
        try:
            values = self.call(k)
        except Exception as error:  # it may raise what it likes
            raise ReadError(f"{where}: {type(error).__name__}: {error}") from error
        if values.shape != (len(k), self.n, self.n):
            raise ReadError(f"{where}: it returns shape {values.shape}, and n = {self.n} before")
        return values.astype(self.dtype, copy=False)


def open_function(config: SourceConfig) -> Computed:
    """Open the stack that `source.function` computes on `source.mesh` or `source.kpath`.

    The function is called with a tile of points at a time, here with a few as a trial.

    Raises
    ------
    Misuse
        When there is no such function, it fails, or returns no stack of square matrices.
    """
    module, name = split_name(config.function)
    formula = Formula(module, name, config.path, dict(config.parameters))
    points = lay_points(config)
    text = read_source(formula)
    trial = try_function(formula, points)
    dtype = choose_dtype(trial.dtype)
    return Computed(
        points,
        replace(formula, n=trial.shape[-1], dtype=dtype),
        n=trial.shape[-1],
        dtype=dtype,
        name=name,
        row_dim="component",
        attrs={"long_name": describe(formula)} | ({"units": config.units} if config.units else {}),
        origin={
            "format": "function",
            "function": name,
            "source": hashlib.sha256(text.encode()).hexdigest(),
            "parameters": json.loads(json.dumps(formula.parameters, sort_keys=True)),
            "lattice": config.lattice and [list(map(float, v)) for v in config.lattice],
        },
    )


def split_name(function: str | None) -> tuple[str, str]:
    """Split `MODULE:NAME` or `FILE.py:NAME` into a module's and a function's name."""
    module, colon, name = (function or "").rpartition(":")
    if not colon or not name.isidentifier() or not module:
        raise Misuse(
            f"source.function={function}: expected MODULE:NAME or FILE.py:NAME, for example "
            f"source.function=graphene:hamiltonian"
        )
    return (Path(module).stem if module.endswith(".py") else module), name


def lay_points(config: SourceConfig) -> Points:
    """Lay the mesh or the path that the config asks for."""
    axes = len(config.lattice) if config.lattice else None
    lattice = None if config.lattice is None else np.array(config.lattice, np.float64)
    if config.mesh is not None:
        if axes and len(config.mesh) != axes:
            raise Misuse(f"source.mesh={config.mesh}: source.lattice has {axes} vectors")
        return lay_mesh(config.mesh, config.shift, lattice, reversal=config.time_reversal)
    if config.kpath is None:
        raise Misuse("source: set 'source.mesh=[60,60]' or source.kpath, on which to call it")
    return lay_path(read_corners(config.kpath, axes), config.points or COUNT, lattice)


def load_module(module: str, file: str) -> ModuleType:
    """Import the module that lies at `file`, by its name where that leads there."""
    loaded = sys.modules.get(module)
    if loaded is None or not is_at(loaded, file):
        loaded = import_installed(module, file) or import_file(module, file)
    return loaded


def is_at(module: ModuleType, file: str) -> bool:
    """Whether a module came from this file."""
    return Path(getattr(module, "__file__", None) or "?").resolve() == Path(file).resolve()


def import_installed(module: str, file: str) -> ModuleType | None:
    """Import a module by name, if that name leads to the file."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != Path(file).resolve():
        return None
    return importlib.import_module(module)


def import_file(module: str, file: str) -> ModuleType:
    """Import a file; modules beside it can be imported by it."""
    spec = importlib.util.spec_from_file_location(module.rpartition(".")[2], file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise Misuse(
            f"source.function: no module {module!r} is installed, and there is no file {file}; "
            f"give the file: source.function=PATH/{module}.py:NAME"
        )
    found = importlib.util.module_from_spec(spec)
    folder = str(Path(file).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec.loader.exec_module(found)
    return found


def read_source(formula: Formula) -> str:
    """Read the text of the function's module, which makes this input this input."""
    try:
        formula.function  # noqa: B018  # loads it, with a message of its own if that fails
        return Path(formula.file).read_text(encoding="utf-8")
    except Misuse:
        raise
    except Exception as error:
        raise Misuse(
            f"source.function: {formula.file} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def describe(formula: Formula) -> str:
    """Take the first line of the function's docstring, or its name."""
    lines = (inspect.getdoc(formula.function) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else formula.name


def try_function(formula: Formula, points: Points) -> NDArray[Any]:
    """Call the function with a few points, and look at what comes back."""
    from pipeline.plan import Block

    stop = tuple(min(size, TRIED) for size in points.shape)
    _, k = points.take(Block(0, (0,) * len(stop), stop))
    k = np.resize(k[-TRIED:], (TRIED, k.shape[1]))
    where = f"source.function={formula.module}:{formula.name}"
    try:
        values, turned = formula.call(k.copy()), formula.call(k[::-1].copy())[::-1]
    except Exception as error:
        raise Misuse(
            f"{where} fails when it is called with k of shape {k.shape}"
            f"{describe_parameters(formula)}: {type(error).__name__}: {error}"
        ) from error
    if values.ndim != 3 or len(values) != TRIED or values.shape[1] != values.shape[2]:
        raise Misuse(
            f"{where} returns shape {values.shape} for k of shape {k.shape}; expected "
            f"({TRIED}, n, n): one matrix for each point"
        )
    if values.dtype.kind not in "iufc":
        raise Misuse(f"{where} returns elements of type {values.dtype}; expected numbers")
    size = np.abs(np.nan_to_num(values)).max(initial=0.0)
    if np.abs(np.nan_to_num(values - turned)).max(initial=0.0) > ALIKE * size:
        raise Misuse(
            f"{where} returns another matrix for the same k when other points stand beside it; "
            f"expected each matrix to depend on its own row of k alone"
        )
    return values


def describe_parameters(formula: Formula) -> str:
    """Name the further arguments of a call, if there are any."""
    return f" and {formula.parameters}" if formula.parameters else ""


def choose_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Choose the element type to deliver: float and complex as they are, others as float64."""
    known = dtype.kind in "fc" and dtype.itemsize in (4, 8, 16) and dtype.name != "float128"
    return dtype.newbyteorder("=") if known else np.dtype(np.float64)
