"""The text files of Wannier90: `seed_hr.dat`, `seed_tb.dat`, `seed_wsvec.dat`, `seed.win`.

Their formats are those that hamiltonian.F90, plot.F90 and ws_distance.F90 of Wannier90 write.
"""

from __future__ import annotations

import gzip
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.sources.corners import Section

BOHR = 0.529177210903
"""Angstrom, CODATA 2018."""


@dataclass(frozen=True, eq=False)
class Hoppings:
    """A Hamiltonian in Wannier functions, in eV: `terms[i]` belongs to lattice vector `cells[i]`.

    `lattice` is in angstrom, a vector a row, where the file says.
    """

    cells: NDArray[np.int64]
    terms: NDArray[np.complex128]
    lattice: NDArray[np.float64] | None


def read_text(path: Path) -> str:
    """Read a text file, packed by gzip or not."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8", errors="replace")
    except (OSError, EOFError) as error:
        raise Misuse(f"source.path: {path} cannot be read: {error}") from error


def read_hoppings(path: Path) -> Hoppings:
    """Read `seed_hr.dat` (six decimals) or `seed_tb.dat` (eight digits); degeneracies divided out.

    Raises
    ------
    Misuse
        When the file is cut short, or not of this format.
    """
    lines = read_text(path).split("\n")
    tight = "_tb.dat" in path.name
    try:
        lattice = read_table("\n".join(lines[1:4]), 9, path).reshape(3, 3) if tight else None
        lines = lines[4 if tight else 1 :]
        n, count = int(lines[0]), int(lines[1])
        rows = -(-count // 15)
        degeneracy = read_table("\n".join(lines[2 : 2 + rows]), count, path)
        each = count * (n * n + 2) if tight else None  # in tb.dat position elements follow
        body = "\n".join(lines[2 + rows :][:each])
    except (ValueError, IndexError) as error:
        raise refuse_file(path, f"its head is not as expected ({error})") from error
    cells, terms = (read_tb if tight else read_hr)(body, n, count, path)
    if len(np.unique(cells, axis=0)) < count:
        raise refuse_file(path, "a lattice vector comes twice")
    return Hoppings(cells, terms / degeneracy[:, None, None], lattice)


def read_hr(
    body: str, n: int, count: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
    """Read lines `R1 R2 R3 m n Re Im`, m fastest."""
    table = read_table(body, count * n * n * 7, path).reshape(count, n, n, 7)
    rows, columns = np.meshgrid(np.arange(1, n + 1), np.arange(1, n + 1))
    if (table[..., 3] != rows).any() or (table[..., 4] != columns).any():
        raise refuse_file(path, "its elements are not in the order m, n with m fastest")
    terms = (table[..., 5] + 1j * table[..., 6]).swapaxes(1, 2)
    return np.asarray(table[:, 0, 0, :3], np.int64), terms


def read_tb(
    body: str, n: int, count: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.complex128]]:
    """Read, for each lattice vector, a line with it and lines `m n Re Im`, m fastest."""
    table = read_table(body, count * (3 + 4 * n * n), path).reshape(count, -1)
    elements = table[:, 3:].reshape(count, n, n, 4)
    rows, columns = np.meshgrid(np.arange(1, n + 1), np.arange(1, n + 1))
    if (elements[..., 0] != rows).any() or (elements[..., 1] != columns).any():
        raise refuse_file(path, "its elements are not in the order m, n with m fastest")
    terms = (elements[..., 2] + 1j * elements[..., 3]).swapaxes(1, 2)
    return np.asarray(table[:, :3], np.int64), terms


def read_table(text: str, count: int, path: Path) -> NDArray[np.float64]:
    """Read a text of `count` numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy < 2.4 warns where 2.4 raises
        try:
            # never with its argument `count`: past the end of the text it takes what is in memory
            numbers = np.fromstring(text, np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise refuse_file(path, "it holds something else than numbers after its head") from None
    if len(numbers) != count:
        raise refuse_file(path, f"it has {len(numbers)} numbers where {count} were expected")
    return numbers


def refuse_file(path: Path, reason: str) -> Misuse:
    """Say that a file is not what its name says."""
    return Misuse(
        f"source.path: {path} is not a whole file of Wannier90: {reason}. Write it again with "
        f"write_hr = .true. or write_tb = .true."
    )


def spread_images(hoppings: Hoppings, path: Path) -> Hoppings:
    """Spread each element evenly over the images that `seed_wsvec.dat` lists.

    They are the positions of the second Wannier function that are nearest to the first
    (`use_ws_distance`): H_mn(k) = sum_R H_mn(R) mean_T exp(2 pi i k.(R + T)).
    """
    words = read_text(path).partition("\n")[2]
    numbers = read_integers(words, path)
    index = {tuple(cell): i for i, cell in enumerate(hoppings.cells.tolist())}
    where: list[tuple[int, int, int, int]] = []
    shifts: list[list[int]] = []
    at = 0
    try:
        while at < len(numbers):
            r1, r2, r3, m, n, many = numbers[at : at + 6]
            at += 6
            for _ in range(many):
                where.append((index[r1, r2, r3], m - 1, n - 1, many))
                shifts.append([r1 + numbers[at], r2 + numbers[at + 1], r3 + numbers[at + 2]])
                at += 3
    except (ValueError, IndexError, KeyError) as error:
        raise Misuse(
            f"source.path: {path} does not belong to the Hamiltonian beside it, or is cut short "
            f"({error!r}). Write both in one run, or move it away to do without minimal distances"
        ) from error
    cells, inverse = np.unique(np.array(shifts), axis=0, return_inverse=True)
    r, m_, n_, share = np.array(where).T
    terms = np.zeros((len(cells), *hoppings.terms.shape[1:]), np.complex128)
    np.add.at(terms, (inverse.ravel(), m_, n_), hoppings.terms[r, m_, n_] / share)
    return Hoppings(cells, terms, hoppings.lattice)


def read_integers(text: str, path: Path) -> list[int]:
    """Read whole numbers."""
    try:
        return list(map(int, text.split()))
    except ValueError as error:
        raise Misuse(f"source.path: {path} holds something else than integers: {error}") from error


@dataclass(frozen=True, eq=False)
class Input:
    """What a `.win` file says: lattice in angstrom, the path's sections, points on the first."""

    lattice: NDArray[np.float64] | None
    sections: list[Section]
    points: int


def read_win(path: Path) -> Input:
    """Read the lattice and the path of a `.win` file, as far as they are there."""
    text = re.sub(r"[!#][^\n]*", "", read_text(path))
    found = re.search(r"(?im)^\s*bands_num_points\s*[=: ]\s*(\d+)", text)
    try:
        return Input(
            read_cell(find_block(text, "unit_cell_cart")),
            read_sections(find_block(text, "kpoint_path")),
            int(found[1]) if found else 100,  # Wannier90's own default
        )
    except (ValueError, IndexError) as error:
        raise Misuse(
            f"source.path: unit_cell_cart or kpoint_path in {path} cannot be read: {error}"
        ) from error


def find_block(text: str, name: str) -> list[str]:
    """Find the words between `begin name` and `end name`; case does not count."""
    pattern = rf"(?is)\bbegin\s*[=:]?\s*{name}\b(.*?)\bend\s*[=:]?\s*{name}\b"
    found = re.search(pattern, text)
    return found[1].split() if found else []


def read_cell(words: list[str]) -> NDArray[np.float64] | None:
    """Read nine numbers, in angstrom unless a word before them says bohr."""
    if not words:
        return None
    unit = words[0].lower() if words[0][0].isalpha() else "ang"
    numbers = [
        float(w.lower().replace("d", "e")) for w in words[1 if words[0][0].isalpha() else 0 :]
    ]
    if len(numbers) != 9 or not unit.startswith(("ang", "bohr")):
        raise ValueError(f"unit_cell_cart has {len(numbers)} numbers, in {unit}")
    return np.array(numbers).reshape(3, 3) * (BOHR if unit.startswith("bohr") else 1.0)


def read_sections(words: list[str]) -> list[Section]:
    """Read pairs of corners, `LABEL x y z LABEL x y z`."""
    if len(words) % 8:
        raise ValueError(f"kpoint_path has {len(words)} words, not 8 for each section")
    sections: list[Any] = []
    for at in range(0, len(words), 8):
        numbers = [float(w) for w in (*words[at + 1 : at + 4], *words[at + 5 : at + 8])]
        names = (words[at], words[at + 4])
        sections.append(Section(names, tuple(numbers[:3]), tuple(numbers[3:])))
    return sections
