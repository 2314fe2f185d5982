"""The energies of a density of states, and the fine grid on which eigenvalues are counted."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.stages.spectrum.survey import Survey

if TYPE_CHECKING:
    from pipeline.schema.spectrum import SpectrumConfig

log = logging.getLogger("eigenstream")

MARGIN = 8
"""Widths by which the default range exceeds the eigenvalues."""
REACH = 9
"""Widths after which a Gaussian, 2.6e-18 of its peak, is taken as 0."""
FINE = 32
"""Points of the counting grid in a width."""
MOST_POINTS = 10_000_000
MOST_BINS = 1 << 22
"""Points of the counting grid: 32 MiB of int64 a worker."""


@dataclass(frozen=True)
class Grid:
    """Where the density of states is wanted, and where eigenvalues are counted.

    Attributes
    ----------
    start, stop : float
        First and last energy.
    points : int
        Number of energies, evenly spaced.
    width : float
        Standard deviation of the Gaussian, in units of the eigenvalues.
    origin : float
        Lowest eigenvalue that is shared out; those below count as `below`.
    limit : float
        Highest eigenvalue that is shared out; those above reach no energy.
    """

    start: float
    stop: float
    points: int
    width: float
    origin: float
    limit: float

    @property
    def energy(self) -> NDArray[np.float64]:
        """The energies, shape (points,)."""
        return np.linspace(self.start, self.stop, self.points)

    @property
    def spacing(self) -> float:
        """Distance between energies."""
        return (self.stop - self.start) / (self.points - 1)

    @property
    def step(self) -> float:
        """Distance between the points of the counting grid."""
        return self.width / FINE

    @property
    def bins(self) -> int:
        """Points of the counting grid; the first lies three steps below `origin`."""
        return math.ceil(max(self.limit - self.origin, 0.0) / self.step) + 8


def make_grid(survey: Survey, config: SpectrumConfig) -> Grid:
    """Choose the energies from the survey of a whole stack and the `spectrum` config.

    `width` null: 1/200 of the extent of the eigenvalues, at least 1e-6 of the largest modulus
    (so that equal eigenvalues have a width too), 1 if all are 0. `range` null: the extremes plus
    and minus 8 widths. `points` null: as many as make the spacing at most a quarter width.

    Raises
    ------
    Misuse
        If `width`, `range` or `points` are no sensible numbers, or ask for too many points.
    """
    used = survey.used > 0
    lowest, highest = (survey.minimum, survey.maximum) if used else (0.0, 0.0)
    width = choose_width(lowest, highest, config.width)
    start, stop = lowest - MARGIN * width, highest + MARGIN * width
    if config.range is not None:
        start, stop = check_range(config.range)
    check_resolution(start, stop, width)
    points = choose_points(start, stop, width, config.points)
    origin = max(lowest, start - REACH * width)
    grid = Grid(start, stop, points, width, origin, min(highest, stop + REACH * width))
    if grid.bins > MOST_BINS:
        extent = grid.limit - grid.origin
        raise Misuse(
            f"spectrum.width={width:g} is too small for eigenvalues from {grid.origin:g} to "
            f"{grid.limit:g}: expected at least {extent * FINE / (MOST_BINS - 8):.2g}; raise "
            "spectrum.width, or narrow spectrum.range"
        )
    if grid.spacing > width:
        log.warning(
            "spectrum.points=%d are %.3g apart, more than spectrum.width=%.3g: lines fall "
            "between them; %d would resolve the density of states",
            *(points, grid.spacing, width, math.ceil((stop - start) / (width / 4)) + 1),
        )
    return grid


def choose_width(lowest: float, highest: float, wanted: float | None) -> float:
    """Choose the Gaussian's standard deviation; the rule stands in `make_grid`."""
    if wanted is not None:
        if not (math.isfinite(wanted) and wanted > 0):
            raise Misuse(f"spectrum.width={wanted}: expected a finite number > 0")
        return float(wanted)
    # Divided first: the extent of float64 values can exceed the largest float64.
    return max(highest / 200 - lowest / 200, 1e-6 * max(abs(lowest), abs(highest))) or 1.0


def check_range(wanted: Sequence[float]) -> tuple[float, float]:
    """Return the range's ends, refusing what is not two rising finite numbers."""
    ends = tuple(float(end) for end in wanted)
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or ends[0] >= ends[1]:
        raise Misuse(
            f"spectrum.range={list(wanted)}: expected [lowest, highest], two rising numbers"
        )
    return ends[0], ends[1]


def check_resolution(start: float, stop: float, width: float) -> None:
    """Refuse a width that float64 cannot resolve at these energies."""
    largest = max(abs(start), abs(stop))
    smallest = max(1e-12 * largest, 1e-300)
    if not (math.isfinite(stop - start) and width >= smallest):
        raise Misuse(
            f"spectrum.width={width:g} cannot be resolved in float64 from {start:g} to {stop:g}: "
            f"expected at least {smallest:.2g}; raise spectrum.width, or narrow spectrum.range"
        )


def choose_points(start: float, stop: float, width: float, wanted: int | None) -> int:
    """Choose the number of energies, refusing what no one can have meant."""
    points = math.ceil((stop - start) / (width / 4)) + 1 if wanted is None else wanted
    if points < 2:
        raise Misuse(f"spectrum.points={points}: expected at least 2")
    if points > MOST_POINTS:
        key = "spectrum.points" if wanted is not None else f"spectrum.width={width:g} makes points"
        raise Misuse(
            f"{key}={points}: expected at most {MOST_POINTS}; "
            "set fewer spectrum.points, a larger spectrum.width, or a narrower spectrum.range"
        )
    return points
