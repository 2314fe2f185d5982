"""Wave vectors: a mesh, or a path between corners; in units of the reciprocal lattice."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.plan import Block
from pipeline.sources.corners import Section

log = logging.getLogger("eigenstream")
Floats = NDArray[np.float64]
LABELLED = 2**22
"""Points of a mesh up to which Cartesian coordinates are kept: three floats each."""
JUMP = 1e-6
"""Distance squared, in units of the reciprocal lattice, from which on a section that does not
start where the last one ended begins with a point of its own (as in Wannier90, plot.F90)."""
INVERSE = "1/angstrom"


@dataclass(frozen=True, eq=False)
class Points:
    """Points of a stack, and how they are labelled.

    Attributes
    ----------
    dims, shape : tuple
        Batch dimensions.
    tables : tuple of array of float64
        Of a mesh the fractions along each axis; of a path one table (count, axes).
    coords : xarray.Dataset
        Coordinates over the dimensions.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    tables: tuple[Floats, ...]
    coords: xr.Dataset

    def take(self, block: Block) -> tuple[NDArray[np.int64], Floats]:
        """Numbers in the stack of a block's points, in C order, and the points (count, axes)."""
        ranges = [np.arange(a, b) for a, b in zip(block.start, block.stop, strict=True)]
        numbers = np.zeros((), np.int64)
        for places, size in zip(ranges, self.shape, strict=True):
            numbers = numbers[..., None] * size + places
        if self.tables[0].ndim == 2:
            return numbers.ravel(), self.tables[0][block.slices]
        parts = [table[s] for table, s in zip(self.tables, block.slices, strict=True)]
        grid = np.meshgrid(*parts, indexing="ij")
        return numbers.ravel(), np.stack([g.ravel() for g in grid], axis=-1)

    def identify(self) -> dict[str, Any]:
        """What makes these points these points, JSON-able."""
        sha = hashlib.sha256()
        for table in self.tables:
            sha.update(np.ascontiguousarray(table, "<f8").tobytes())
        return {"dims": list(self.dims), "shape": list(self.shape), "content": sha.hexdigest()}


def invert(lattice: Floats | None) -> Floats | None:
    """Reciprocal lattice vectors, one a row, with the factor 2 pi."""
    if lattice is None:
        return None
    try:
        inverse = np.linalg.inv(lattice)
    except np.linalg.LinAlgError:
        raise Misuse(
            f"source.lattice: the vectors {lattice.tolist()} do not span their space; expected "
            f"linearly independent ones, one a row"
        ) from None
    return np.asarray(2 * np.pi * inverse.T)


def describe_lattice(lattice: Floats | None) -> dict[str, list[float]]:
    """Attributes that state the lattice and its reciprocal, a vector each."""
    reciprocal = invert(lattice)
    if lattice is None or reciprocal is None:
        return {}
    attrs = {f"lattice_{i + 1}": v for i, v in enumerate(lattice.tolist())}
    return attrs | {f"reciprocal_{i + 1}": v for i, v in enumerate(reciprocal.tolist())}


def lay_mesh(
    mesh: Sequence[int],
    shift: Sequence[float] | None,
    lattice: Floats | None,
    *,
    letter: str = "k",
    reversal: bool = False,
) -> Points:
    """Lay a mesh: (j + shift) / count along each axis.

    With `reversal` only half of it is kept along the longest axis (the first of several): k and -k
    then have one representative, except in the planes that -k maps on themselves; a weight counts
    it.
    """
    steps = shift or [0.0] * len(mesh)
    tables = [(np.arange(n) + s) / n for n, s in zip(mesh, steps, strict=True)]
    dims = tuple(f"{letter}{i + 1}" for i in range(len(mesh)))
    marks: dict[str, Any] = {}
    if reversal:
        axis = int(np.argmax(mesh))
        weights = halve(mesh[axis], steps[axis])
        tables[axis] = tables[axis][: len(weights)]
        about = {
            "role": "weight",
            "long_name": f"points that this one stands for: {letter} and -{letter}",
        }
        marks["weight"] = (dims[axis], weights, about)
    coords = {
        dim: (dim, table, {"long_name": "in units of the reciprocal lattice", "units": "1"})
        for dim, table in zip(dims, tables, strict=True)
    }
    marks |= place_mesh(tables, dims, lattice, letter)
    whole = xr.Dataset(coords=coords | marks, attrs=describe_lattice(lattice))
    return Points(dims, tuple(map(len, tables)), tuple(tables), whole)


def halve(count: int, shift: float) -> Floats:
    """Weights of the half of an axis that is kept: 2, and 1 where -k is k."""
    partner = (-np.arange(count) - round(2 * shift)) % count
    kept = np.arange(count) <= partner
    alone = np.arange(count) == partner
    return np.where(alone, 1.0, 2.0)[: int(kept.sum())]


def place_mesh(
    tables: Sequence[Floats], dims: Sequence[str], lattice: Floats | None, letter: str
) -> dict[str, Any]:
    """Cartesian coordinates of a mesh."""
    reciprocal = invert(lattice)
    if reciprocal is None:
        return {}
    if prod(map(len, tables)) > LABELLED:
        log.info("more than %d points: Cartesian coordinates are left out", LABELLED)
        return {}
    grid = np.stack(np.meshgrid(*tables, indexing="ij"), axis=-1)
    return name_cartesian(tuple(dims), to_cartesian(grid, reciprocal), letter)


def to_cartesian(k: Floats, reciprocal: Floats) -> Floats:
    """Sum k_i b_i in the order of the axes."""
    total = k[..., :1] * reciprocal[0]
    for axis in range(1, len(reciprocal)):
        total = total + k[..., axis : axis + 1] * reciprocal[axis]
    return np.asarray(total)


def name_cartesian(dims: tuple[str, ...], places: Floats, letter: str) -> dict[str, Any]:
    """Give each Cartesian component its name and units."""
    return {
        f"{letter}{x}": (dims, places[..., i], {"units": INVERSE})
        for i, x in zip(range(places.shape[-1]), "xyz", strict=False)
    }


def lay_path(
    sections: Sequence[Section], count: int, lattice: Floats | None, *, letter: str = "k"
) -> Points:
    """Lay points along sections, `count` on the first and the others as dense.

    As Wannier90 does it, so that bands can be laid one over the other; the distance stands still
    at a jump.
    """
    reciprocal = invert(lattice)
    metric = np.eye(len(sections[0].start)) if reciprocal is None else reciprocal
    lengths = [
        float(np.linalg.norm(to_cartesian(np.subtract(s.stop, s.start), metric))) for s in sections
    ]
    if not lengths[0] > 0:
        raise Misuse(
            f"source.kpath: the first section, from {sections[0].names[0]} to "
            f"{sections[0].names[1]}, has no length; it sets the density of points"
        )
    k: list[Floats] = []
    distance: list[float] = []
    labels: list[str] = []
    for i, (section, length) in enumerate(zip(sections, lengths, strict=True)):
        start, stop = np.array(section.start), np.array(section.stop)
        if not k or float(np.sum((k[-1] - start) ** 2)) > JUMP:
            k.append(start)
            distance.append(distance[-1] if distance else 0.0)
            labels.append(section.names[0])
        steps = count if i == 0 else max(1, int(count * length / lengths[0] + 0.5))
        begin = distance[-1]
        for step in range(1, steps + 1):
            k.append(start + (stop - start) * (step / steps))
            distance.append(begin + length * step / steps)
            labels.append(section.names[1] if step == steps else "")
    return label_path(np.array(k), np.array(distance), labels, lattice, letter)


def label_path(
    k: Floats, distance: Floats, labels: Sequence[str], lattice: Floats | None, letter: str
) -> Points:
    """Give the points of a path their coordinates."""
    dim, reciprocal = letter, invert(lattice)
    units = "1" if reciprocal is None else INVERSE
    coords: dict[str, Any] = {
        f"{letter}{i + 1}": (dim, k[:, i], {"units": "1"}) for i in range(k.shape[1])
    }
    if reciprocal is not None:
        coords |= name_cartesian((dim,), to_cartesian(k, reciprocal), letter)
    about = {"long_name": "distance along the path", "units": units}
    coords["distance"] = (dim, distance, about)
    coords["label"] = (dim, np.array(labels, dtype=object), {"long_name": "corner of the path"})
    return Points(
        (dim,), (len(k),), (k,), xr.Dataset(coords=coords, attrs=describe_lattice(lattice))
    )
