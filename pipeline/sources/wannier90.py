"""Hamiltonians in Wannier functions, as Wannier90 writes them: H(k) on a mesh or a path."""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.sources.computed import Computed
from pipeline.sources.corners import read_corners
from pipeline.sources.lattice_sum import LatticeSum
from pipeline.sources.points import Points, invert, lay_mesh, lay_path
from pipeline.sources.wannier_files import (
    Hoppings,
    Input,
    read_hoppings,
    read_win,
    spread_images,
)

if TYPE_CHECKING:
    from pipeline.schema.source import SourceConfig

log = logging.getLogger("eigenstream")
NAME = re.compile(r"(.+)_(hr|tb)\.dat(\.gz)?")
EXPECTED = "SEED_tb.dat or SEED_hr.dat (also .gz), SEED alone, or a folder that holds one seed"


@dataclass(frozen=True)
class Files:
    """The files of one seed; None for what is not there."""

    seed: str
    hoppings: Path
    images: Path | None
    win: Path | None


def open_wannier90(config: SourceConfig) -> Computed:
    """Open the Hamiltonian of a seed on the points that the config asks for.

    H_mn(k) = sum_R exp(2 pi i k.R) H_mn(R) / degeneracy(R), with R spread over its images where
    `seed_wsvec.dat` lists them.

    Raises
    ------
    Misuse
        When files are missing or damaged, or no points are asked for.
    """
    files = find_files(config.path)
    hoppings = read_hoppings(files.hoppings)
    stated = read_win(files.win) if files.win else None
    if files.images:
        hoppings = spread_images(hoppings, files.images)
    lattice = choose_lattice(config, hoppings, stated)
    log.info("Hamiltonian from %s", describe_files(files))
    if config.time_reversal:
        check_reality(hoppings)
    points = lay_points(config, lattice, stated)
    points.coords.attrs["seed"] = files.seed
    total = LatticeSum(hoppings.cells.astype(np.float64), hoppings.terms)
    return Computed(
        points,
        total,
        n=hoppings.terms.shape[-1],
        dtype=np.dtype(np.complex128),
        name=files.seed,
        row_dim="wannier",
        attrs={
            "units": config.units or "eV",
            "long_name": "Hamiltonian in Wannier functions",
            "convention": "H_mn(k) = sum_R exp(2 pi i k.R) H_mn(R)",
        },
        origin={"format": "wannier90", "content": digest(hoppings, lattice)},
        held=total.held,
    )


def find_files(path: str) -> Files:
    """Find the files of a seed; `seed_tb.dat`, which has more digits, before `seed_hr.dat`."""
    place = Path(path)
    if "://" in path:
        raise Misuse(
            f"source.path={path}: files of Wannier90 are read from a disk; copy them there"
        )
    match = NAME.fullmatch(place.name)
    if match and place.is_file():
        return complete(place.parent, match[1], place)
    folder, seed = (place, None) if place.is_dir() else (place.parent, place.name)
    found = list_hamiltonians(folder) if folder.is_dir() else {}
    if seed is None and len(found) == 1:
        seed = next(iter(found))
    if seed not in found or seed is None:
        there = ", ".join(sorted(found)) or "none"
        what = "is a folder with several or no seeds" if seed is None else "is not there"
        raise Misuse(f"source.path={path} {what}; expected {EXPECTED}. Seeds in {folder}: {there}")
    return complete(folder, seed, found[seed])


def list_hamiltonians(folder: Path) -> dict[str, Path]:
    """List the seeds of a folder, each with its best Hamiltonian."""
    found: dict[str, Path] = {}
    for ending in ("hr.dat.gz", "hr.dat", "tb.dat.gz", "tb.dat"):  # the last one wins
        for file in sorted(folder.glob(f"*_{ending}")):
            found[file.name.removesuffix(f"_{ending}")] = file
    return found


def complete(folder: Path, seed: str, hoppings: Path) -> Files:
    """Find what lies beside a Hamiltonian."""

    def find(*names: str) -> Path | None:
        return next((folder / name for name in names if (folder / name).is_file()), None)

    images = find(f"{seed}_wsvec.dat", f"{seed}_wsvec.dat.gz")
    return Files(seed, hoppings, images, find(f"{seed}.win"))


def describe_files(files: Files) -> str:
    """Name the files that were read."""
    images = f", images from {files.images.name}" if files.images else ", no wsvec.dat"
    return f"{files.hoppings}{images}"


def choose_lattice(
    config: SourceConfig, hoppings: Hoppings, stated: Input | None
) -> NDArray[np.float64] | None:
    """Choose the lattice: the config's, else the Hamiltonian's, else that of the `.win` file."""
    if config.lattice is not None:
        if len(config.lattice) != 3:
            raise Misuse("source.lattice: Wannier90's has three vectors of three components")
        return np.array(config.lattice, np.float64)
    if hoppings.lattice is not None:
        return hoppings.lattice
    return stated.lattice if stated else None


def lay_points(
    config: SourceConfig, lattice: NDArray[np.float64] | None, stated: Input | None
) -> Points:
    """Lay the mesh or the path that the config asks for, or the path of the `.win` file."""
    if config.mesh is not None:
        if len(config.mesh) != 3:
            raise Misuse(f"source.mesh={config.mesh}: expected three counts, as in [12,12,12]")
        return lay_mesh(config.mesh, config.shift, lattice, reversal=config.time_reversal)
    sections = read_corners(config.kpath, 3) if config.kpath else stated and stated.sections
    if not sections:
        raise Misuse(
            "source: no points are asked for, and there is no .win file with a kpoint_path beside "
            "the Hamiltonian; set 'source.mesh=[12,12,12]' or source.kpath"
        )
    if invert(lattice) is None:
        raise Misuse(
            "source.kpath: the lattice, which sets distances, is not known: seed_hr.dat does not "
            "say. Put the .win file beside it, or set source.lattice"
        )
    count = config.points or (stated.points if stated else 100)
    return lay_path(sections, count, lattice)


def check_reality(hoppings: Hoppings) -> None:
    """Say what time reversal rests on, where H(R) is not real (then E(k) = E(-k) in any case)."""
    size = float(np.abs(hoppings.terms).max())
    part = float(np.abs(hoppings.terms.imag).max())
    if part > 1e-3 * size:  # less is what localisation and six decimals leave
        log.warning(
            "source.time_reversal: H(R) has imaginary parts up to %.2g of its largest element; "
            "E(k) = E(-k) holds without magnetism only, and this cannot be seen here",
            part / size,
        )


def digest(hoppings: Hoppings, lattice: NDArray[np.float64] | None) -> dict[str, Any]:
    """Digest what the matrices and their coordinates are made from."""
    sha = hashlib.sha256(np.ascontiguousarray(hoppings.cells, "<i8").tobytes())
    sha.update(np.ascontiguousarray(hoppings.terms, "<c16").tobytes())
    return {"terms": sha.hexdigest(), "lattice": None if lattice is None else lattice.tolist()}
