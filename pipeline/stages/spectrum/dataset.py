"""The results of the spectrum stage, labelled."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.stages.spectrum.dos import Counts, broaden
from pipeline.stages.spectrum.filling import Filling, fill_bands
from pipeline.stages.spectrum.grid import Grid
from pipeline.stages.spectrum.stack import Stack
from pipeline.stages.spectrum.survey import Survey

if TYPE_CHECKING:
    from pipeline.schema.spectrum import SpectrumConfig


def build_spectrum(
    found: Survey,
    counts: Counts,
    grid: Grid,
    config: SpectrumConfig,
    stack: Stack,
    exponent: int,
) -> xr.Dataset:
    """Label the results.

    Returns
    -------
    xarray.Dataset
        `dos (energy)`, states per matrix and unit of energy; `idos (energy)`, states per matrix
        below an energy; `broadening`, the Gaussian's standard deviation; `band_min` and
        `band_max` along the bands. With
        `config.electrons` also `fermi_level`, `gap`, `direct_gap`, `valence_max`,
        `conduction_min`, and, along `edge`, the coordinates of the matrices where the last three
        occur, as `edge_<name>`.
    """

    def broaden_at(energy: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        scale = 1 / found.weight if found.weight else 0.0
        return [series * scale for series in broaden(counts, grid, energy)]

    dos, idos = broaden_at(grid.energy)
    units = {} if stack.units is None else {"units": stack.units}
    inverse = {} if stack.units is None else {"units": invert_units(stack.units)}
    result = xr.Dataset(
        {
            "dos": ("energy", dos, {"long_name": "density of states per matrix"} | inverse),
            "idos": ("energy", idos, {"long_name": "states per matrix below", "units": "1"}),
            # not `width`: as an attribute of a DataTree that is the width of the tree
            "broadening": (
                (),
                grid.width,
                {"long_name": "standard deviation of the Gaussian"} | units,
            ),
        },
        {"energy": ("energy", grid.energy, {"long_name": "energy"} | units)},
        describe(found, grid, config, stack, exponent),
    ).assign(describe_bands(found, stack, units))
    if config.electrons is None:
        return result

    def count_below(energy: float) -> float:
        return float(broaden_at(np.array([energy]))[1][0])

    span = (grid.start, grid.stop)
    filling = fill_bands(found, config, stack.rising, stack.n, span, count_below)
    return result.assign(describe_filling(filling, units)).assign_coords(
        locate_edges(filling, stack)
    )


def invert_units(units: str) -> str:
    """Return the units of a density: "eV" -> "1/eV", "rad/s" -> "1/(rad/s)", "1" -> "1"."""
    if units in ("", "1"):
        return "1"
    return f"1/{units}" if re.fullmatch(r"[^\W\d_]+", units) else f"1/({units})"


def describe(
    found: Survey, grid: Grid, config: SpectrumConfig, stack: Stack, exponent: int
) -> dict[str, Any]:
    """Return what the whole dataset has to say for itself."""
    attrs: dict[str, Any] = {
        "title": "Spectrum",
        "method": "dos: Gaussian-broadened density of states",
        "matrices_used": found.used,
        "matrices_left_out": math.prod(stack.shape) - found.used,
        "total_weight": math.ldexp(found.weight, -exponent),
        "states": "one for each eigenvalue, averaged over the matrices by weight; no spin factor",
    }
    if grid.spacing > grid.width:
        attrs["caution"] = "energies are further apart than the width; lines may fall between them"
    if config.electrons is not None:
        attrs["electrons"] = float(config.electrons)
        attrs["degeneracy"] = config.degeneracy
        attrs["filling"] = (
            f"{config.electrons:g} electrons per matrix, {config.degeneracy} to a state (2: both "
            "spins), at zero temperature; the Fermi level is mid gap, in a metal where idos "
            "equals the number of filled bands"
        )
    return attrs


def describe_bands(found: Survey, stack: Stack, units: dict[str, str]) -> dict[str, Any]:
    """Return each band's extremes, in the order in which bands are stored."""
    turn = slice(None, None, -1 if stack.descending else 1)
    band = xr.DataArray(stack.bands, dims=stack.pair_dim, name=stack.pair_dim)
    variables: dict[str, Any] = {stack.pair_dim: band}
    for name, kind, values in (
        ("band_min", "smallest", found.bottom.value),
        ("band_max", "largest", -found.top.value),
    ):
        values = np.where(np.isfinite(values), values, np.nan)[turn]
        attrs = {"long_name": f"{kind} eigenvalue of the band"} | units
        variables[name] = (stack.pair_dim, values, attrs)
    return variables


def describe_filling(filling: Filling, units: dict[str, str]) -> dict[str, Any]:
    """Return the energies of a filling as scalar variables."""
    names = {
        "fermi_level": "Fermi level",
        "gap": "band gap",
        "direct_gap": "smallest gap within one matrix",
        "valence_max": "highest filled eigenvalue",
        "conduction_min": "lowest empty eigenvalue",
    }
    return {
        name: ((), getattr(filling, name), {"long_name": label} | units)
        for name, label in names.items()
    }


def locate_edges(filling: Filling, stack: Stack) -> dict[str, Any]:
    """Return the coordinates of the matrices at the band edges, along `edge`.

    A batch dimension without a coordinate is located by position.
    """
    edges = [
        name for name in ("valence_max", "conduction_min", "direct_gap") if name in filling.where
    ]
    if not edges or not stack.dims:
        return {}
    flat = [filling.where[name] for name in edges]
    positions = dict(zip(stack.dims, np.unravel_index(flat, stack.shape), strict=True))
    # Objects are stored as variable-length strings.
    located: dict[str, Any] = {"edge": ("edge", np.array(edges, object))}
    for dim, position in positions.items():
        located[f"edge_{dim}"] = ("edge", position, {"long_name": f"position along {dim}"})
    for name, variable in stack.coords.variables.items():
        if variable.dims and set(variable.dims) <= set(stack.dims):
            at = {str(d): xr.Variable("edge", positions[str(d)]) for d in variable.dims}
            located[f"edge_{name}"] = variable.isel(at)
    return located
