"""The group `source`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline import checks, kinds
from pipeline.checks import MISSING
from pipeline.choices import Kind, Missing, Nan


@dataclass
class SourceConfig:
    """Where the matrices are, and which of them.

    Attributes
    ----------
    path : text
        A Zarr store (group or array): a folder, a URL (`s3://`, `gs://`, `az://`, `https://`,
        …), a zip archive, an icechunk repository; or a `.npy` file. Relative paths start at
        the working directory.
    variable : text or null
        The variable that holds the matrices; null: the only one that can.
    matrix_dims : list of two names, or of two positions, or null
        Dimensions of the rows and the columns of a matrix; null: the last two.
    isel : mapping of dimension to index, list of indices, or start:stop:step
        Selection by position, from 0. A single index drops the dimension.
    sel : mapping of dimension to label, list of labels, or lo..hi
        Selection by coordinate value; both ends of a range are included.
    mask : text or null
        A variable of the same store, or a path; true where a matrix is to be solved.
    missing : error | flag | fill
        Where a chunk is absent: refuse to start, flag its matrices `missing`, or take
        the store's fill value (how a background of zeros is stored).
    units : text or null
        Units of the matrix elements, for a store that does not say.
    storage_options : mapping of option to value
        How a store that is no local folder is opened, such as `endpoint` or credentials; for an
        icechunk repository `branch`, `tag` or `snapshot_id`. Never recorded.
    kind : zarr | wannier90 | function | tensors | covariance | phonopy
        What `path` is: a store of matrices, files of Wannier90, Python code, packed tensors,
        samples of which covariances are taken, or files of phonopy.
        The keys below belong to some kinds only (docs/sources.md); others refuse them.
    mesh : list of int, or null
        Points along each reciprocal lattice vector, from Gamma on.
    shift : list of float, or null
        By which part of a step the mesh is shifted from Gamma along each axis; null: none.
    time_reversal : true | false
        Take one of k and -k, with a weight: half the mesh, for eigenvalues that are equal there.
    kpath : text or null
        Corners of a path, such as "L 1/2 1/2 1/2 - G 0 0 0 - X 1/2 0 1/2", with ` | ` at a
        jump; null, without a mesh: the one that the input states, such as a `.win` file.
    points : int or null
        Points on the first section of a path, the others as dense; null: what the input says,
        else 100.
    lattice : list of vectors, or null
        Lattice vectors in angstrom, one a row, for an input that does not say.
    function : text or null
        `MODULE:NAME` or `FILE.py:NAME`: a function from k (points, axes), in units of the
        reciprocal lattice, to matrices (points, n, n).
    parameters : mapping of name to value
        Further arguments of the function.
    packing : dipy | fsl | mrtrix | voigt-stress | voigt-strain | mandel | upper | lower | null
        Order of the elements of packed tensors; null: what the file states, else refused.
    sample_dim, channel_dim : text or null
        Dimensions of samples; null: one called time, else the last but one; and of channels;
        null: the last of the others.
    window : int or null
        Samples of each covariance; null: all of them in one.
    step : int or null
        Samples from the start of one window to the next; null: as many as a window has.
    demean : true | false
        Subtract each channel's mean over the window.
    ddof : int
        Taken from the number of samples in the divisor.
    nan : flag | drop-sample | pairwise
        Samples with NaN: their windows are flagged `missing`, or they are left out, or each
        element takes the samples where both channels are there.
    correlation : true | false
        Correlations instead of covariances.
    feature_weights : text or null
        A coordinate of the channels by which samples are multiplied, or `sqrt_cos(LATITUDE)`
        of one in degrees.
    dipoles : true | false
        Add the non-analytic term where phonopy's files have Born charges.
    direction : list of three float, or null
        From which direction Gamma is reached, in units of the reciprocal lattice, for phonons
        with dipoles; null: their term is left out at Gamma.
    """

    path: str = MISSING
    variable: str | None = None
    matrix_dims: list[Any] | None = None
    isel: dict[str, Any] = field(default_factory=dict)
    sel: dict[str, Any] = field(default_factory=dict)
    mask: str | None = None
    missing: Missing = Missing.error
    units: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict)
    kind: Kind = Kind.zarr
    mesh: list[int] | None = None
    shift: list[float] | None = None
    time_reversal: bool = False
    kpath: str | None = None
    points: int | None = None
    lattice: list[list[float]] | None = None
    function: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    packing: str | None = None
    sample_dim: str | None = None
    channel_dim: str | None = None
    window: int | None = None
    step: int | None = None
    demean: bool = True
    ddof: int = 1
    nan: Nan = Nan.flag
    correlation: bool = False
    feature_weights: str | None = None
    dipoles: bool = True
    direction: list[float] | None = None

    def __post_init__(self) -> None:
        self.kind = Kind(self.kind)  # text, where it comes from Python
        kinds.check_kind(self)
        kinds.check_points(self)
        checks.check_text("source.path", self.path)
        checks.check_text("source.variable", self.variable)
        checks.check_text("source.mask", self.mask)
        checks.check_matrix_dims(self.matrix_dims)
