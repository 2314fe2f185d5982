"""The group `spectrum`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import checks
from pipeline.choices import Method


@dataclass
class SpectrumConfig:
    """What is computed from all eigenvalues together, after the solve.

    Attributes
    ----------
    method : dos | null
        `dos`: density of states and its integral, Gaussian-broadened.
    range : list of two float, or null
        First and last energy of the grid, in units of the matrices; null: the values'
        extremes, minus and plus 8 widths.
    points : int or null
        Number of grid points; null: spacing of at most a quarter width.
    width : float or null
        Standard deviation of the Gaussian, in units of the matrices; null: 1/200 of the
        extent of the eigenvalues.
    weights : text or null
        A coordinate that weights the matrices; null: the one marked `role=weight`,
        else all alike.
    electrons : float or null
        Electrons per matrix; gives the Fermi level, the band edges and the gap.
    degeneracy : int
        Electrons that one state holds: 2 without spin, 1 with spin.
    """

    method: Method | None = None
    range: list[float] | None = None
    points: int | None = None
    width: float | None = None
    weights: str | None = None
    electrons: float | None = None
    degeneracy: int = 2

    def __post_init__(self) -> None:
        checks.check_range(self.range)
        checks.check_least("spectrum.points", self.points, 2)
        checks.check_most("spectrum.points", self.points, 10_000_000)
        checks.check_above("spectrum.width", self.width, 0)
        checks.check_least("spectrum.electrons", self.electrons, 0)
        checks.check_least("spectrum.degeneracy", self.degeneracy, 1)
        checks.check_text("spectrum.weights", self.weights)
