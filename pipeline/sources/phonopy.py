"""Dynamical matrices from phonopy's files, on a mesh or a path of wave vectors."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import Misuse
from pipeline.sources.computed import Computed
from pipeline.sources.corners import Section, read_corners
from pipeline.sources.crystal import Crystal, find_files, read_crystal
from pipeline.sources.dynamical import make_dynamical
from pipeline.sources.points import Points, lay_mesh, lay_path

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

log = logging.getLogger("eigenstream")
COUNT = 100
"""Points on the first section of a path, unless `source.points` says."""


def open_phonopy(config: SourceConfig) -> Computed:
    """Open the dynamical matrices of a calculation on the points that the config asks for.

    Raises
    ------
    Misuse
        When files are missing or phonopy cannot read them, or no points are asked for.
    """
    files, sections = find_files(config.path), check_points(config)
    crystal = read_crystal(files, dipoles=config.dipoles)
    direction = None if config.direction is None else np.array(config.direction, np.float64)
    if direction is not None and crystal.dipoles is None:
        raise Misuse(
            f"source.direction={config.direction}: there are no dipoles (no BORN file beside "
            f"{files.yaml}, or source.dipoles=false), and without them all directions give one "
            f"limit at Gamma; leave it out"
        )
    points = lay_points(config, sections, crystal)
    points.coords.attrs["frequency_factor_THz"] = crystal.factor
    points.coords.attrs["dipoles"] = "yes" if crystal.dipoles else "no"
    log.info("force constants by phonopy from %s", files.constants or files.sets or files.yaml)
    dynamical = make_dynamical(crystal, direction)
    return Computed(
        points,
        dynamical,
        n=3 * len(crystal.masses),
        dtype=np.dtype(np.complex128),
        name="dynamical_matrix",
        row_dim="motion",
        attrs={
            "units": config.units or "eV/(angstrom^2 amu)",
            "long_name": "dynamical matrix",
            "comment": "frequency in THz: sign(w) sqrt(|w|) frequency_factor_THz",
        },
        origin={
            "format": "phonopy",
            "content": files.digest(),
            "phonopy": version("phonopy"),
            "dipoles": crystal.dipoles is not None,
            "direction": None if direction is None else direction.tolist(),
        },
        held=dynamical.held,
        rows=[f"{s}{i + 1} {x}" for i, s in enumerate(crystal.symbols) for x in "xyz"],
    )


def check_points(config: SourceConfig) -> list[Section]:
    """Check what can be checked before phonopy is asked, which takes its time."""
    if config.mesh is not None:
        if len(config.mesh) != 3:
            raise Misuse(f"source.mesh={config.mesh}: expected three counts, as in [12,12,12]")
        return []
    if config.kpath is None:
        raise Misuse("source: set 'source.mesh=[12,12,12]' or source.kpath, the wave vectors")
    return read_corners(config.kpath, 3)


def lay_points(config: SourceConfig, sections: list[Section], crystal: Crystal) -> Points:
    """Lay the mesh or the path that the config asks for."""
    if config.mesh is not None:
        return lay_mesh(
            config.mesh, config.shift, crystal.lattice, letter="q", reversal=config.time_reversal
        )
    return lay_path(sections, config.points or COUNT, crystal.lattice, letter="q")
