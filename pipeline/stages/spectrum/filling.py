"""Band filling: Fermi level, band edges and gap from the number of electrons."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pipeline.errors import Misuse
from pipeline.stages.spectrum.survey import Survey

if TYPE_CHECKING:
    from pipeline.schema.spectrum import SpectrumConfig

log = logging.getLogger("eigenstream")


@dataclass(frozen=True)
class Filling:
    """Energies in units of the eigenvalues; NaN where there is none.

    Attributes
    ----------
    valence_max, conduction_min : float
        Highest filled and lowest empty eigenvalue of an insulator.
    gap : float
        Their distance; 0 for a metal.
    direct_gap : float
        Smallest distance in one matrix between the last filled and the first empty band.
    fermi_level : float
        Mid gap; for a metal, where the broadened integrated density of states equals the number
        of filled bands.
    where : dict of str to int
        Flat index of the matrix of `valence_max`, `conduction_min` and `direct_gap`.
    """

    valence_max: float = math.nan
    conduction_min: float = math.nan
    gap: float = math.nan
    direct_gap: float = math.nan
    fermi_level: float = math.nan
    where: dict[str, int] = field(default_factory=dict)


def check_electrons(config: SpectrumConfig, bands: NDArray[np.int64], n: int) -> None:
    """Refuse a filling that the stored bands cannot decide.

    Parameters
    ----------
    config : SpectrumConfig
    bands : ndarray of int64, shape (m,)
        Indices of the stored bands in the full spectrum.
    n : int
        Rows of a matrix.

    Raises
    ------
    Misuse
        If there is no band left empty or none filled, or if the bands at the Fermi level are not
        stored.
    """
    if config.electrons is None:
        return
    if config.degeneracy < 1:
        raise Misuse(f"spectrum.degeneracy={config.degeneracy}: expected a whole number >= 1")
    most = n * config.degeneracy
    if not 0 < config.electrons < most:
        raise Misuse(
            f"spectrum.electrons={config.electrons:g}: expected more than 0 and fewer than {most}, "
            f"which fill all {n} bands with spectrum.degeneracy={config.degeneracy} electrons each"
        )
    filled = config.electrons / config.degeneracy
    needed = {math.ceil(filled) - 1, math.floor(filled)}
    if not needed <= set(bands.tolist()):
        names = " and ".join(map(str, sorted(needed)))
        raise Misuse(
            f"spectrum.electrons={config.electrons:g} fills {filled:g} bands and needs band "
            f"{names}, but only bands {bands.min()} to {bands.max()} are stored; "
            "widen solve.subset or solve.largest, or leave spectrum.electrons out"
        )


def fill_bands(
    survey: Survey,
    config: SpectrumConfig,
    bands: NDArray[np.int64],
    n: int,
    span: tuple[float, float],
    count_below: Callable[[float], float],
) -> Filling:
    """Fill the bands with `config.electrons` per matrix, at zero temperature.

    Parameters
    ----------
    survey : Survey
        Of the whole stack.
    config : SpectrumConfig
        `electrons` and `degeneracy`, the electrons that one state holds.
    bands : ndarray of int64, shape (m,)
        Indices of the stored bands in the full spectrum, ascending.
    n : int
        Rows of a matrix.
    span : tuple of float
        Energies between which `count_below` holds.
    count_below : callable
        Broadened number of stored states per matrix below an energy.
    """
    if config.electrons is None or survey.used == 0:
        return Filling()
    filled = config.electrons / config.degeneracy
    top = math.ceil(filled) - 1 - int(bands[0])
    where: dict[str, int] = {}
    direct = math.nan
    if filled.is_integer():
        where["direct_gap"], direct = int(survey.gap.where[top]), float(survey.gap.value[top])
        valence = float(-survey.top.value[top])
        conduction = float(survey.bottom.value[top + 1])
        if conduction > valence:
            where["valence_max"] = int(survey.top.where[top])
            where["conduction_min"] = int(survey.bottom.where[top + 1])
            middle = valence + (conduction - valence) / 2
            return Filling(valence, conduction, conduction - valence, direct, middle, where)
    level = find_level(filled - int(bands[0]), span, count_below)
    # Bands that are not stored must lie wholly below or above the level.
    if (bands[0] > 0 and -survey.top.value[0] >= level) or (
        bands[-1] < n - 1 and survey.bottom.value[-1] <= level
    ):
        log.warning(
            "no Fermi level: bands outside those stored (%d to %d of %d) may cross it; "
            "widen solve.subset",
            *(bands[0], bands[-1], n),
        )
        level = math.nan
    return Filling(gap=0.0, direct_gap=direct, fermi_level=level, where=where)


def find_level(
    states: float, span: tuple[float, float], count_below: Callable[[float], float]
) -> float:
    """Find the energy with `states` states per matrix below it; NaN if it is out of the span."""
    below, above = (count_below(end) - states for end in span)
    if not below <= 0 <= above:
        log.warning(
            "no Fermi level: it lies outside of the energies %g to %g; widen spectrum.range", *span
        )
        return math.nan
    return float(brentq(lambda energy: count_below(energy) - states, *span, xtol=1e-300))
