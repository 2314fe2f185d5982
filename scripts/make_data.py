"""Write the example inputs ``data/silicon.zarr``, ``data/gaas.zarr``, ``data/wannier90``,
``data/springs``, ``data/phantom.zarr`` and ``data/signals.zarr``.

Each store holds nearest-neighbour sp3s* tight-binding Hamiltonians H(k), 10 x 10, complex128, eV:
``H_mesh`` on a 12 x 12 x 12 Gamma-centred mesh and ``H_path`` along L-Gamma-X. The model and its
parameters are those of P. Vogl, H. P. Hjalmarson, J. D. Dow, J. Phys. Chem. Solids 44, 365 (1983).
``data/wannier90/silicon_hr.dat`` holds silicon's elements by lattice vector, as Wannier90 writes
them; all of them have six decimals or fewer. ``data/springs`` holds a face-centred cubic
crystal of springs in phonopy's format, ``data/phantom.zarr`` diffusion tensors of a
ring of fibres, made by +, -, * and / alone, ``data/signals.zarr`` a signal in noise.

Run ``python scripts/make_data.py [FOLDER]``; FOLDER is ``data`` beside ``scripts`` by default.
"""

from __future__ import annotations

import sys
import warnings
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from zarr.codecs import BloscCodec

REFERENCE = "P. Vogl, H. P. Hjalmarson, J. D. Dow, J. Phys. Chem. Solids 44, 365 (1983)"
MESH = 12  # points along each primitive reciprocal vector
PATH = 100  # steps to a reciprocal unit (2 pi / a) along the path: 0.01 in each component

ATOMS = ("a", "c")
SHELL = ("s", "px", "py", "pz", "s*")
ORBITALS = [f"{shell}_{atom}" for atom in ATOMS for shell in SHELL]

# From an anion to its four cations, in units of a/4 (table A of the paper).
BONDS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
# Primitive reciprocal vectors of the face-centred cubic lattice, in units of 2 pi / a.
RECIPROCAL = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1]])
CORNERS = {0: "L", PATH // 2: "Γ", PATH // 2 + PATH: "X"}

# eV. E: on-site energies of the anion (a) and cation (c), V: interatomic matrix elements.
PARAMETERS = ["E_sa", "E_sc", "E_pa", "E_pc", "E_s*a", "E_s*c"]
PARAMETERS += ["V_ss", "V_xx", "V_xy", "V_sa_pc", "V_pa_sc", "V_s*a_pc", "V_pa_s*c"]
SILICON = [-4.2, -4.2, 1.715, 1.715, 6.685, 6.685]
SILICON += [-8.3, 1.715, 4.575, 5.7292, 5.7292, 5.3749, 5.3749]
GAAS = [-8.3431, -2.6569, 1.0414, 3.6686, 8.5914, 6.7386]
GAAS += [-6.4513, 1.9546, 5.0779, 4.48, 5.7839, 4.8422, 4.8077]
MATERIALS = {
    "silicon": dict(zip(PARAMETERS, SILICON, strict=True)),
    "gaas": dict(zip(PARAMETERS, GAAS, strict=True)),
}
FORMULAS = {"silicon": "Si", "gaas": "GaAs"}

WIN = """\
! What the bands of silicon need of a .win file: the lattice, and a path.
num_wann = 10
bands_num_points = 100

begin unit_cell_cart
ang
0.0000 2.7155 2.7155
2.7155 0.0000 2.7155
2.7155 2.7155 0.0000
end unit_cell_cart

begin kpoint_path
L 0.500 0.500 0.500  G 0.000 0.000 0.000
G 0.000 0.000 0.000  X 0.500 0.000 0.500
X 0.500 0.000 0.500  U 0.625 0.250 0.625
K 0.375 0.375 0.750  G 0.000 0.000 0.000
end kpoint_path
"""

SPRINGS = """\
# A crystal of springs: what phonopy needs beside FORCE_CONSTANTS.
physical_unit:
  atomic_mass: "AMU"
  length: "angstrom"
  force_constants: "eV/angstrom^2"
primitive_matrix:
- [ 1, 0, 0 ]
- [ 0, 1, 0 ]
- [ 0, 0, 1 ]
supercell_matrix:
- [ 3, 0, 0 ]
- [ 0, 3, 0 ]
- [ 0, 0, 3 ]
unit_cell:
  lattice:
  - [ 0.00, 2.63, 2.63 ]
  - [ 2.63, 0.00, 2.63 ]
  - [ 2.63, 2.63, 0.00 ]
  points:
  - symbol: Ar
    coordinates: [ 0.0, 0.0, 0.0 ]
    mass: 39.948
"""


def roots_of_unity(count: int) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """exp(2 pi i m / count) for m = 0 ... count - 1, correctly rounded.

    Taylor series in decimal arithmetic, so that the stores come out the same to the last bit on
    every machine; the sines and cosines of C libraries differ in it.
    """
    result = np.empty(count, np.complex128)
    with localcontext() as context:
        context.prec = 50
        turn = 2 * Decimal("3.14159265358979323846264338327950288419716939937510")
        for m in range(count):
            # The nearest quarter turn is exact; the series takes what is left of the angle.
            quarters = (8 * m + count) // (2 * count)
            angle = turn * Decimal(4 * m - quarters * count) / Decimal(4 * count)
            sums, term = [Decimal(0)] * 4, Decimal(1)
            for power in range(40):
                sums[power % 4] += term
                term *= angle / (power + 1)
            rest = complex(float(sums[0] - sums[2]), float(sums[1] - sums[3]))
            result[m] = (
                rest,
                complex(-rest.imag, rest.real),
                -rest,
                complex(rest.imag, -rest.real),
            )[quarters % 4]
    return result


def build_hamiltonians(
    steps: np.ndarray[Any, np.dtype[np.int64]], parts: int, material: dict[str, float]
) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """H(k) at k = steps / parts (Cartesian, units of 2 pi / a), of shape (..., 10, 10), eV.

    The basis is ``ORBITALS``; an element between an anion and a cation carries the phase
    exp(i k . d) of the bond d (table A of the paper), the lower triangle is its conjugate.
    """
    return sum_bonds(roots_of_unity(4 * parts)[(steps @ BONDS.T) % (4 * parts)] / 4, material)


def sum_bonds(
    bonds: np.ndarray[Any, np.dtype[np.complex128]], p: dict[str, float]
) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """The sum over bonds that are weighted by ``bonds``, of shape (..., 4)."""
    # g0 is even and g1, g2, g3 are odd in the signs of the bond's x, y, z component.
    g = [sum(bonds[..., i] * s[i] for i in range(4)) for s in ([1, 1, 1, 1], *BONDS.T)]
    h = np.zeros((*bonds.shape[:-1], 10, 10), np.complex128)
    onsite = [p[f"E_{s[:1] if s[0] == 'p' else s}{atom}"] for atom in ATOMS for s in SHELL]
    h[..., range(10), range(10)] = onsite
    elements = {(0, 5): (p["V_ss"], 0)}
    for x in (1, 2, 3):
        elements[0, 5 + x] = (p["V_sa_pc"], x)
        elements[x, 5] = (-p["V_pa_sc"], x)
        elements[4, 5 + x] = (p["V_s*a_pc"], x)
        elements[x, 9] = (-p["V_pa_s*c"], x)
        for y in (1, 2, 3):
            # Between px and py the phase is that of the third axis: 1 + 2 -> 3, 1 + 3 -> 2 ...
            elements[x, 5 + y] = (p["V_xx"], 0) if x == y else (p["V_xy"], 6 - x - y)
    for (row, column), (strength, which) in elements.items():
        h[..., row, column].real = h[..., column, row].real = strength * g[which].real
        h[..., row, column].imag = strength * g[which].imag
        h[..., column, row].imag = -strength * g[which].imag
    return h


def build_dataset(name: str) -> xr.Dataset:
    """The dataset that is stored as ``<name>.zarr``."""
    material = MATERIALS[name]
    mesh = np.stack(np.meshgrid(*[np.arange(MESH)] * 3, indexing="ij"), axis=-1) @ RECIPROCAL
    to_gamma = np.arange(PATH // 2, -1, -1)[:, None] * [1, 1, 1]
    path = np.concatenate([to_gamma, np.arange(1, PATH + 1)[:, None] * [1, 0, 0]])
    matrix = ("orbital", "orbital_column")
    energy = {"units": "eV"}
    data = {
        "H_mesh": (
            ("k1", "k2", "k3", *matrix),
            build_hamiltonians(mesh, MESH, material),
            energy | {"long_name": "Hamiltonian on a Gamma-centred mesh"},
        ),
        "H_path": (
            ("path", *matrix),
            build_hamiltonians(path, PATH, material),
            energy | {"long_name": "Hamiltonian along L-Gamma-X"},
        ),
    }
    coords = mesh_coords(mesh / MESH) | path_coords(path / PATH)
    for dim in matrix:
        coords[dim] = (dim, np.array(ORBITALS, object), {"long_name": "orbital_atom, a anion"})
    attrs: dict[str, Any] = {
        "title": f"{FORMULAS[name]}: nearest-neighbour sp3s* Hamiltonians H(k)",
        "references": REFERENCE,
        "source": "scripts/make_data.py",
        "license": "BSD-3-Clause",
        "phase_convention": "elements carry exp(i k . d), d the vector from anion to cation",
        "parameter_units": "eV",
    }
    return xr.Dataset(data, coords, attrs | material)


def mesh_coords(k: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    """Coordinates of the mesh; `k` is Cartesian, (k1, k2, k3, 3)."""
    coords: dict[str, Any] = {}
    for i, vector in enumerate(RECIPROCAL):
        label = {"long_name": f"fraction of reciprocal vector {tuple(vector.tolist())}"}
        coords[f"k{i + 1}"] = (f"k{i + 1}", np.arange(MESH) / MESH, label | {"units": "1"})
    for i, axis in enumerate("xyz"):
        label = {"long_name": f"wave vector, {axis}", "units": "2 pi / a"}
        coords[f"k{axis}"] = (("k1", "k2", "k3"), k[..., i], label)
    return coords


def path_coords(k: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    """Coordinates of the path; `k` is Cartesian, (path, 3)."""
    units = {"units": "2 pi / a"}
    # Named apart from the mesh's kx, ky, kz: one group holds both.
    coords: dict[str, Any] = {
        f"k{axis}_path": ("path", k[:, i], units | {"long_name": f"wave vector, {axis}"})
        for i, axis in enumerate("xyz")
    }
    to_gamma = np.arange(PATH // 2 + 1) * np.sqrt(3.0) / PATH
    distance = np.concatenate([to_gamma, to_gamma[-1] + np.arange(1, PATH + 1) / PATH])
    coords["distance"] = ("path", distance, units | {"long_name": "distance along the path"})
    # Objects are stored as variable-length strings; fixed-length ones have no v3 specification.
    label = np.array([CORNERS.get(i, "") for i in range(len(k))], object)
    coords["label"] = ("path", label, {"long_name": "point of symmetry"})
    return coords


def write_store(dataset: xr.Dataset, path: Path) -> None:
    """Write `dataset` as consolidated Zarr v3: one file an array, the mesh cut by k1-plane."""
    zstd = (BloscCodec(cname="zstd", clevel=9, shuffle="shuffle", typesize=8),)
    encoding: dict[str, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        whole = {"chunks": variable.shape}
        unfilled = {} if variable.dtype.kind in "UTO" else {"_FillValue": None}
        encoding[str(name)] = whole | unfilled
    shape = dataset["H_mesh"].shape
    encoding["H_mesh"] |= {"chunks": (1, *shape[1:]), "shards": shape, "compressors": zstd}
    encoding["H_path"] |= {"compressors": zstd}
    with warnings.catch_warnings():
        # zarr-python warns that the v3 specification has no consolidated metadata (yet).
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        dataset.to_zarr(path, mode="w", zarr_format=3, consolidated=True, encoding=encoding)


def list_hoppings(p: dict[str, float]) -> dict[tuple[int, ...], np.ndarray[Any, Any]]:
    """Matrices of the lattice vectors R, without phases: rows in the cell at 0, columns at R.

    The cation of the first bond is in the same cell; those of the others are in the cells -a1,
    -a2 and -a3, with a1 = (0, 1, 1) a/2 and so on.
    """
    home = sum_bonds(np.zeros(4, np.complex128), p).real
    hoppings = {(0, 0, 0): home}
    for bond in range(4):
        bonded = sum_bonds(np.eye(4, dtype=np.complex128)[bond] / 4, p).real - home
        upper = np.triu(bonded)
        cell = [-int(axis == bond - 1) for axis in range(3)]
        for r, part in ((cell, upper), ([-i for i in cell], upper.T)):
            key = tuple(r)
            hoppings[key] = hoppings.get(key, np.zeros((10, 10))) + part
    return dict(sorted(hoppings.items()))


def write_wannier90(folder: Path) -> None:
    """Write silicon's elements as ``silicon_hr.dat``, with a ``silicon.win`` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    hoppings = list_hoppings(MATERIALS["silicon"])
    lines = [f" {FORMULAS['silicon']}: {REFERENCE}", f"{10:12d}", f"{len(hoppings):12d}"]
    lines.append("".join(f"{1:5d}" for _ in hoppings))
    for cell, matrix in hoppings.items():
        for column in range(10):
            for row in range(10):
                indices = "".join(f"{i:5d}" for i in (*cell, row + 1, column + 1))
                lines.append(f"{indices}{matrix[row, column] + 0.0:12.6f}{0:12.6f}")
    (folder / "silicon_hr.dat").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "silicon.win").write_text(WIN, encoding="utf-8")


def write_springs(folder: Path) -> None:
    """Write a crystal whose atoms are joined to their 12 neighbours by springs: argon, about.

    Its supercell holds 3 x 3 x 3 primitive cells, the first axis fastest, as phonopy orders them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spring, count = 0.07, 3  # eV/angstrom^2
    cells = [(i, j, k) for k in range(count) for j in range(count) for i in range(count)]
    constants = np.zeros((len(cells), 3, 3))
    for cell in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 0), (0, 1, -1), (-1, 0, 1)]:
        way = np.array(cell) @ (1 - np.eye(3))  # in units of a / 2, of length sqrt(2)
        block = spring * np.outer(way, way) / 2
        constants[0] += 2 * block
        for sign in (1, -1):
            constants[cells.index(tuple(sign * c % count for c in cell))] -= block
    lines = [f"{1:4d} {len(cells):4d}"]
    for number, block in enumerate(constants):
        lines.append(f"{1:d} {number + 1:d}")
        lines += ["".join(f"{x + 0.0:22.15f}" for x in row) for row in block]
    (folder / "FORCE_CONSTANTS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "phonopy.yaml").write_text(SPRINGS, encoding="utf-8")


def build_phantom() -> xr.Dataset:
    """Diffusion tensors of a ring of fibres in water, six elements a voxel in MRtrix's order.

    Along the fibres 1.7e-3 mm^2/s, across 0.3e-3; in the water 3e-3 in every direction.
    """
    size, depth = 24, 6
    x, y = np.meshgrid(*[np.arange(size) - (size - 1) / 2] * 2, indexing="ij")
    square = x * x + y * y
    ring = (square > 36) & (square < 100)
    tangent = np.stack([-y, x, np.zeros_like(x)], axis=-1)
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    elements = np.zeros((size, size, 6))
    for i, (row, column) in enumerate(pairs):
        fibre = 1.4e-3 * (tangent[..., row] * tangent[..., column] / square)
        inside = fibre + (0.3e-3 if row == column else 0.0)
        elements[..., i] = np.where(ring, inside, 3e-3 if row == column else 0.0)
    tensor = np.repeat(elements[:, :, None], depth, axis=2).astype(np.float32)
    brain = np.repeat((square < 132)[:, :, None], depth, axis=2)
    coords = {
        dim: (dim, 2.0 * np.arange(n), {"units": "mm"})
        for dim, n in zip("xyz", brain.shape, strict=True)
    }
    attrs = {"units": "mm^2/s", "packing": "mrtrix", "long_name": "diffusion tensor"}
    data = {"tensor": ((*"xyz", "element"), tensor, attrs), "brain": (tuple("xyz"), brain)}
    title = "Diffusion tensors of a ring of fibres in water"
    about = {"title": title, "source": "scripts/make_data.py", "license": "BSD-3-Clause"}
    return xr.Dataset(data, coords, about)


def build_signals() -> xr.Dataset:
    """Four seconds of twelve channels: noise, and from 1.5 s to 2.5 s one rhythm in all of them."""
    samples, channels = 1024, 12
    noise = np.random.RandomState(0).randint(-60, 61, (samples, channels))  # its stream is frozen
    rhythm = roots_of_unity(samples)[(40 * np.arange(samples)) % samples].imag
    weights = 5 * np.arange(1, channels + 1)
    rhythm[: 3 * samples // 8] = rhythm[5 * samples // 8 :] = 0
    values = noise + np.rint(rhythm[:, None] * weights).astype(np.int64)
    coords = {
        "time": ("time", np.arange(samples) / 256, {"units": "1", "long_name": "time in seconds"}),
        "channel": ("channel", np.array([f"c{i + 1}" for i in range(channels)], object)),
    }
    data = {"signal": (("time", "channel"), values.astype(np.int16), {"units": "uV"})}
    about = {"title": "A rhythm in noise, made up", "source": "scripts/make_data.py"}
    return xr.Dataset(data, coords, about | {"license": "BSD-3-Clause"})


def write_plain(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as consolidated Zarr v3, one file an array."""
    zstd = (BloscCodec(cname="zstd", clevel=9, shuffle="shuffle", typesize=4),)
    encoding: dict[str, dict[str, Any]] = {
        str(name): {"chunks": v.shape, "compressors": zstd} for name, v in dataset.variables.items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        dataset.to_zarr(path, mode="w", zarr_format=3, consolidated=True, encoding=encoding)


def main() -> None:
    """Write every material's store into the folder named on the command line."""
    default = Path(__file__).resolve().parent.parent / "data"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for name in MATERIALS:
        write_store(build_dataset(name), folder / f"{name}.zarr")
        print(folder / f"{name}.zarr")
    write_wannier90(folder / "wannier90")
    print(folder / "wannier90")
    write_springs(folder / "springs")
    print(folder / "springs")
    for name, dataset in (("phantom", build_phantom()), ("signals", build_signals())):
        write_plain(dataset, folder / f"{name}.zarr")
        print(folder / f"{name}.zarr")


if __name__ == "__main__":
    main()
