"""Values to choose from, one enumeration a key of the schema."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What kind of input the matrices come from."""

    zarr = "zarr"
    wannier90 = "wannier90"
    function = "function"
    tensors = "tensors"
    covariance = "covariance"
    phonopy = "phonopy"

    @property
    def is_text(self) -> bool:
        """Whether it lies in files of text, not in a store."""
        return self in (Kind.wannier90, Kind.function, Kind.phonopy)


class Missing(StrEnum):
    """What to do where the input has no data."""

    error = "error"
    flag = "flag"
    fill = "fill"


class Nan(StrEnum):
    """What becomes of samples that hold NaN."""

    flag = "flag"
    drop_sample = "drop-sample"
    pairwise = "pairwise"


# OmegaConf reads an enumeration by its names, which cannot hold a hyphen
Nan._member_map_["drop-sample"] = Nan.drop_sample


class Order(StrEnum):
    """In which order eigenvalues are stored."""

    ascending = "ascending"
    descending = "descending"


class Device(StrEnum):
    """Where matrices are solved."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    xpu = "xpu"


class Hermitian(StrEnum):
    """How both triangles of a matrix are used."""

    strict = "strict"
    average = "average"
    # these two hide methods of str, which nobody calls on a choice
    lower = "lower"  # type: ignore[assignment]
    upper = "upper"  # type: ignore[assignment]


class Check(StrEnum):
    """How each result is proved."""

    probe = "probe"
    full = "full"
    off = "off"


class Gauge(StrEnum):
    """How the freedom of the eigenvectors is fixed."""

    phase = "phase"
    cluster = "cluster"
    none = "none"


class Method(StrEnum):
    """What is computed from the whole spectrum."""

    dos = "dos"


class Compressor(StrEnum):
    """How result arrays are compressed."""

    auto = "auto"
    none = "none"
    lz4 = "lz4"
    zstd = "zstd"


class ClusterKind(StrEnum):
    """How workers come to be."""

    auto = "auto"
    serial = "serial"
    threads = "threads"
    local = "local"
