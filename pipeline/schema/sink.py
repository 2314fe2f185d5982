"""The group `sink`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline import checks
from pipeline.choices import Compressor


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
