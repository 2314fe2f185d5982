"""The schema of a run's configuration: one dataclass a group, plain values only.

Hydra fills these in (`pipeline.overrides`); everything behind it sees only the plain
dataclasses, which pickle, and which workers read without loading Hydra. The table in
docs/configuration.md is made from the docstrings below (`pipeline.keys.describe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pipeline import checks, kinds
from pipeline.checks import MISSING
from pipeline.choices import (
    Check,
    ClusterKind,
    Compressor,
    Device,
    Gauge,
    Hermitian,
    Kind,
    Method,
    Missing,
    Nan,
    Order,
)

if TYPE_CHECKING:
    from pipeline.overrides import (
        amend,
        compose,
        compose_many,
        read_sink_options,
        show,
        to_yaml,
    )

__all__ = [
    "MISSING",
    "Config",
    "amend",
    "compose",
    "compose_many",
    "from_plain",
    "read_sink_options",
    "show",
    "to_plain",
    "to_yaml",
]


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


@dataclass
class SolveConfig:
    """How each matrix is solved and proved.

    Attributes
    ----------
    vectors : true | false
        Compute eigenvectors, too.
    subset : list of two int, or null
        `[lo, hi)`: keep the pairs with these indices in ascending order, counted from 0;
        negative indices count from the top. Null: all.
    largest : int or null
        Keep this many of the largest eigenvalues.
    order : ascending | descending
        Order in which pairs are stored.
    driver : text
        Name of the eigensolver, or `auto`: chosen once for a run, and recorded.
    device : auto | cpu | cuda | xpu
        Where matrices are solved; this version solves on the CPU only.
    dtype : float32 | float64 | complex64 | complex128 | null
        Element type in which matrices are solved and stored; null: that of the input.
    hermitian : strict | average | lower | upper
        `strict` flags matrices that are not Hermitian, `average` solves (A + A^H)/2,
        `lower` and `upper` read one triangle.
    hermitian_tol : float or null
        Largest max|A - A^H| / max|A| that `strict` accepts, without unit; null: 100 n eps.
    check : probe | full | off
        Proof of each result: by one probe vector, by the whole residual, or none.
    gauge : phase | cluster | none
        `phase`: the largest component of each eigenvector is real and positive; `cluster`: and
        equal eigenvalues get a basis that depends on their span alone (whole clusters only: a
        subset may cut one); `none`: no promise.
    """

    vectors: bool = False
    subset: list[int] | None = None
    largest: int | None = None
    order: Order = Order.ascending
    driver: str = "auto"
    device: Device = Device.auto
    dtype: str | None = None
    hermitian: Hermitian = Hermitian.strict
    hermitian_tol: float | None = None
    check: Check = Check.probe
    gauge: Gauge = Gauge.phase

    def __post_init__(self) -> None:
        checks.check_subset(self.subset, self.largest)
        checks.check_least("solve.largest", self.largest, 1)
        checks.check_least("solve.hermitian_tol", self.hermitian_tol, 0)
        checks.check_one_of("solve.dtype", self.dtype, checks.DTYPES)
        if self.hermitian_tol is not None and self.hermitian != Hermitian.strict:
            raise checks.refuse(
                "solve.hermitian_tol",
                f"{self.hermitian_tol!r} with solve.hermitian={self.hermitian.value}",
                "no tolerance: only `strict` compares the two triangles",
                "leave it out, or set solve.hermitian=strict",
            )


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


@dataclass
class SinkConfig:
    """What is written, and where.

    Attributes
    ----------
    path : text or null
        The output, a Zarr group, in a folder or an object store (`s3://`, `gs://`, `az://`);
        the same command again resumes it. Null: a new directory under `outputs/` at each launch.
    overwrite : true | false
        Delete what is at `path` first, if it is an output of ours.
    variables : list of eigenvalues, eigenvectors, residual, status, or null
        Results to store; null: all, the eigenvectors only with `solve.vectors`. The
        status is always stored.
    dtype : float32 | float64 | complex64 | complex128, or a mapping of result to one, or null
        Precision in which eigenvalues and eigenvectors are stored, for both or for each, as in
        `{eigenvectors: float32}`; null: that of solving. What is stored is what is proved.
    compressor : auto | none | lz4 | zstd
        `auto`: zstd for the status, none for numbers, whose low bits do not compress.
    shard_bytes : bytes, such as 67108864 or "64 MiB", or null
        Of the largest result in one file, which is one block; null: whatever a block gives.
    pair_dim : text
        Name of the dimension of eigenpairs; `mode` is usual for covariances and tensors.
    rename : mapping of input name to output name
        New names for dimensions and coordinates of the input.
    storage_options : mapping of option to value
        How an object store is opened, such as `endpoint` or credentials. Never recorded.
    """

    path: str | None = None
    overwrite: bool = False
    variables: list[str] | None = None
    dtype: Any = None
    compressor: Compressor = Compressor.auto
    shard_bytes: Any = None
    pair_dim: str = "band"
    rename: dict[str, str] = field(default_factory=dict)
    storage_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.check_text("sink.path", self.path)
        checks.check_text("sink.pair_dim", self.pair_dim)
        checks.check_rename(self.rename)
        self.variables = checks.read_variables(self.variables)
        self.dtype = checks.read_dtypes(self.dtype)
        self.shard_bytes = checks.read_bytes("sink.shard_bytes", self.shard_bytes)


@dataclass
class PlanConfig:
    """How the stack is cut into blocks.

    Attributes
    ----------
    block_bytes : bytes, such as 67108864 or "64 MiB", or null
        Decoded input of one block; null: chosen from the memory and the workers.
    limit : int or null
        Solve only the first matrices, in C order, for a trial; the output keeps its shape.
    """

    block_bytes: Any = None
    limit: int | None = None

    def __post_init__(self) -> None:
        self.block_bytes = checks.read_bytes("plan.block_bytes", self.block_bytes)
        checks.check_least("plan.limit", self.limit, 1)


@dataclass
class ClusterConfig:
    """Who does the work.

    Attributes
    ----------
    kind : auto | serial | threads | local
        `serial` works in the program itself, `threads` in its threads, `local` in
        processes of their own; `auto` chooses by the size of the job.
    workers : int or null
        Number of workers; null: as many as the cores allow.
    threads : int or null
        Solver threads of each worker; workers times threads is kept within the cores.
    memory : bytes, such as 4294967296 or "4 GiB", or null
        Memory of each worker; null: an equal share of what is there.
    """

    kind: ClusterKind = ClusterKind.auto
    workers: int | None = None
    threads: int | None = None
    memory: Any = None

    def __post_init__(self) -> None:
        self.memory = checks.read_bytes("cluster.memory", self.memory)
        checks.check_least("cluster.workers", self.workers, 1)
        checks.check_least("cluster.threads", self.threads, 1)
        if self.kind == ClusterKind.serial and (self.workers or 1) > 1:
            raise checks.refuse(
                "cluster.workers",
                f"{self.workers} with cluster.kind=serial",
                "1: `serial` is one worker, in the program itself",
                "choose cluster=threads or cluster=local, or set cluster.threads",
            )


@dataclass
class RunConfig:
    """How a run goes on, and when it counts as failed.

    Attributes
    ----------
    resume : true | false
        Go on with what is at `sink.path`; false: refuse when something is there.
    max_bad : float
        Matrices that may fail before the exit code is 1: a count, or below 1 a fraction.
    retry_failed : true | false
        On resuming, try again the blocks that were given up.
    """

    resume: bool = True
    max_bad: float = 0
    retry_failed: bool = False

    def __post_init__(self) -> None:
        checks.check_least("run.max_bad", self.max_bad, 0)
        if self.max_bad > 1 and self.max_bad != int(self.max_bad):
            raise checks.refuse(
                "run.max_bad",
                repr(self.max_bad),
                "a whole number of matrices, or a fraction below 1",
                f"for example run.max_bad={int(self.max_bad)}",
            )


@dataclass
class Config:
    """A whole run.

    Attributes
    ----------
    source, solve, spectrum, sink, plan, cluster, run : mapping
        The groups.
    """

    source: SourceConfig = field(default_factory=SourceConfig)
    solve: SolveConfig = field(default_factory=SolveConfig)
    spectrum: SpectrumConfig = field(default_factory=SpectrumConfig)
    sink: SinkConfig = field(default_factory=SinkConfig)
    plan: PlanConfig = field(default_factory=PlanConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        checks.check_stored(self)
        checks.check_filling(self)
        checks.check_size(self)


def to_plain(config: Config) -> dict[str, Any]:
    """Turn a config into nested dictionaries of JSON-able values.

    Storage options stay out: what is recorded, shown or logged is made from this.
    """
    return {
        group: {
            key: v.value if isinstance(v, Enum) else v
            for key, v in values.items()
            if key != "storage_options"
        }
        for group, values in asdict(config).items()
    }


def from_plain(plain: Mapping[str, Any]) -> Config:
    """Rebuild a config from what `to_plain` gave; groups and keys left out take their defaults.

    Raises
    ------
    Misuse
        If a group or key is not in the schema, or a value is not allowed.
    """
    groups = get_type_hints(Config)
    for name in plain:
        if name not in groups:
            raise checks.refuse(
                name, "this group", " | ".join(groups), "is it from another version?"
            )
    return Config(**{name: _read_group(groups[name], name, plain[name]) for name in plain})


def _read_group(kind: Any, group: str, plain: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in plain.items():
        if key not in known:
            where = f"{group}.{key}"
            raise checks.refuse(where, "this key", ", ".join(hints), "is it from another version?")
        choice = find_enum(hints[key])
        try:
            values[key] = choice(value) if choice and value is not None else value
        except ValueError:
            allowed = " | ".join(c.value for c in choice or ())
            raise checks.refuse(f"{group}.{key}", repr(value), allowed, "choose one") from None
    return kind(**values)


def find_enum(hint: Any) -> type[Enum] | None:
    """Find the enumeration in a type hint such as `Method | None`."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind
    return None


def __getattr__(name: str) -> Any:
    # Hydra takes 0.3 s to import, and workers never compose: so only on demand
    if name in ("amend", "compose", "compose_many", "read_sink_options", "show", "to_yaml"):
        from pipeline import overrides

        return getattr(overrides, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
