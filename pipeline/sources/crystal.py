"""What phonopy reads from its files: a crystal, its force constants, its dipoles."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse

Floats = NDArray[np.float64]
YAMLS = ("phonopy_params.yaml", "phonopy.yaml", "phonopy_disp.yaml")
"""In the order in which they are taken; also with `.xz` or `.gz` behind it."""
CONSTANTS = ("force_constants.hdf5", "FORCE_CONSTANTS")


@dataclass(frozen=True)
class Files:
    """The files of a calculation; None for what is not there."""

    yaml: Path
    constants: Path | None
    sets: Path | None
    born: Path | None

    def digest(self) -> str:
        """Digest their content, in the order of the fields."""
        sha = hashlib.sha256()
        for file in (self.yaml, self.constants, self.sets, self.born):
            sha.update(b"-" if file is None else hashlib.sha256(file.read_bytes()).digest())
        return sha.hexdigest()


@dataclass(frozen=True, eq=False)
class Crystal:
    """A crystal and what holds it together.

    Attributes
    ----------
    lattice : array (3, 3)
        Primitive vectors in angstrom, one a row.
    positions : array (atoms, 3)
        In units of the lattice.
    masses : array (atoms,)
        In amu.
    symbols : list of str
    constants : array (atoms, supercell atoms, 3, 3)
        Force constants in eV/angstrom^2; without what dipoles add, if there are any.
    super_lattice, super_positions : array
        Of the supercell: angstrom, and in units of itself.
    rows : array of int (atoms,)
        Number in the supercell of each primitive atom.
    kinds : array of int (supercell atoms,)
        Primitive atom that each is an image of.
    factor : float
        From the square root of an eigenvalue to THz.
    dipoles : dict or None
        `born`, `dielectric`, `factor` (e^2 / 4 pi eps0 in eV angstrom), `g` (reciprocal vectors in
        1/angstrom, without 2 pi) and `width`, with which phonopy took the dipoles out.
    """

    lattice: Floats
    positions: Floats
    masses: Floats
    symbols: list[str]
    constants: Floats
    super_lattice: Floats
    super_positions: Floats
    rows: NDArray[np.int64]
    kinds: NDArray[np.int64]
    factor: float
    dipoles: dict[str, Any] | None


def find_files(path: str) -> Files:
    """Find the files of a calculation: `path` is its folder, or its YAML file."""
    place = Path(path)
    if place.is_file():
        yaml, folder = place, place.parent
    else:
        folder = place
        named = [folder / f"{name}{packed}" for name in YAMLS for packed in ("", ".xz", ".gz")]
        found = [file for file in named if file.is_file()]
        if not found:
            there = sorted(p.name for p in folder.iterdir())[:12] if folder.is_dir() else []
            raise Misuse(
                f"source.path={path}: expected a YAML file of phonopy, or a folder with one of "
                f"{', '.join(YAMLS)}; there: {', '.join(there) or 'nothing'}"
            )
        yaml = found[0]

    def find(*names: str) -> Path | None:
        return next((folder / name for name in names if (folder / name).is_file()), None)

    return Files(yaml, find(*CONSTANTS), find("FORCE_SETS"), find("BORN"))


def read_crystal(files: Files, *, dipoles: bool = True) -> Crystal:
    """Let phonopy read the files, make force constants of forces, and take out the dipoles.

    As `phonopy.load` does by default: force constants are symmetrised. Without `dipoles` nothing is
    taken out of them.

    Raises
    ------
    Misuse
        When phonopy is not installed or cannot read them, or there are no forces.
    """
    try:
        import phonopy  # type: ignore[import-not-found,unused-ignore]  # optional
    except ImportError:
        raise Misuse(
            "source=phonopy needs phonopy to read its files: pip install 'eigenstream[phonopy]'"
        ) from None
    try:
        phonon = load(phonopy, files, dipoles=dipoles)
    except Misuse:
        raise
    except Exception as error:  # it raises what it likes
        raise Misuse(
            f"source.path: phonopy cannot read {', '.join(map(str, list_present(files)))}: "
            f"{type(error).__name__}: {error}"
        ) from error
    check_units(phonon, files)
    return take_over(phonon)


def list_present(files: Files) -> Iterator[Path]:
    """List the files that are there."""
    return (f for f in (files.yaml, files.constants, files.sets, files.born) if f is not None)


def load(phonopy: Any, files: Files, *, dipoles: bool) -> Any:
    """Load with every file named: what it is not told, phonopy looks for where it is called."""
    from phonopy.interface.phonopy_yaml import PhonopyYaml  # type: ignore[import-not-found,unused-ignore]

    stated = PhonopyYaml()
    stated.read(files.yaml)
    given: dict[str, Any] = {"is_nac": False}
    if dipoles and files.born is not None:
        given = {"is_nac": True, "born_filename": os.fspath(files.born)}
    elif dipoles and stated.nac_params is not None:
        given = {"is_nac": True, "nac_params": stated.nac_params}
    if files.constants is not None:
        given["force_constants_filename"] = os.fspath(files.constants)
    elif files.sets is not None:
        given["force_sets_filename"] = os.fspath(files.sets)
    elif stated.force_constants is None and not has_forces(stated.dataset):
        raise Misuse(
            f"source.path: {files.yaml} holds no forces, and there is none of FORCE_SETS, "
            f"{', '.join(CONSTANTS)} beside it"
        )
    return phonopy.load(files.yaml, log_level=0, **given)


def has_forces(dataset: Any) -> bool:
    """Whether a data set of displacements holds forces."""
    if not dataset:
        return False
    return "forces" in dataset or any("forces" in d for d in dataset.get("first_atoms", []))


def check_units(phonon: Any, files: Files) -> None:
    """Refuse units that are not phonopy's own, angstrom and eV."""
    if phonon.calculator not in (None, "vasp"):
        raise Misuse(
            f"source.path: {files.yaml} is in the units of {phonon.calculator}; expected those "
            f"of phonopy itself (angstrom, eV). Save it in them: phonopy.load(…).save()"
        )
    if phonon.force_constants is None:
        raise Misuse(f"source.path: phonopy makes no force constants of {files.yaml}")


def take_over(phonon: Any) -> Crystal:
    """Take what is needed from phonopy's object, as plain arrays."""
    primitive, supercell = phonon.primitive, phonon.supercell
    constants, dipoles = np.asarray(phonon.force_constants, np.float64), None
    if phonon.nac_params is not None:
        matrix = phonon.dynamical_matrix
        matrix.make_Gonze_nac_dataset()
        constants, _, _, g, width = matrix.Gonze_nac_dataset
        dipoles = {
            # as it uses them itself: made to obey symmetry, and to sum to zero
            "born": np.asarray(matrix.born, np.float64),
            "dielectric": np.asarray(matrix.dielectric_constant, np.float64),
            "factor": float(phonon.nac_params["factor"]),
            "g": np.asarray(g, np.float64),
            "width": float(width),
        }
    rows = np.asarray(primitive.p2s_map, np.int64)
    if len(constants) == len(supercell):
        constants = constants[rows]
    kinds = [primitive.p2p_map[int(s)] for s in primitive.s2p_map]
    return Crystal(
        lattice=np.asarray(primitive.cell, np.float64),
        positions=np.asarray(primitive.scaled_positions, np.float64),
        masses=np.asarray(primitive.masses, np.float64),
        symbols=list(primitive.symbols),
        constants=np.asarray(constants, np.float64),
        super_lattice=np.asarray(supercell.cell, np.float64),
        super_positions=np.asarray(supercell.scaled_positions, np.float64),
        rows=rows,
        kinds=np.array(kinds, np.int64),
        factor=float(phonon.unit_conversion_factor),
        dipoles=dipoles,
    )
