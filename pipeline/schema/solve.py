"""The group `solve`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import checks
from pipeline.choices import Check, Device, Gauge, Hermitian, Order


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
