"""The solve stage: one block of matrices in, eigenpairs with proof and status out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.columns import OUTCOMES
from pipeline.errors import Misuse


@dataclass(frozen=True)
class Solver:
    """How every matrix of a run is solved; plain data, so that it can be sent to workers.

    Attributes
    ----------
    n, pairs : int
        Rows of a matrix, and eigenpairs kept of it.
    dtype : str
        Element type in which it is solved.
    vectors : bool
        Whether eigenvectors are wanted.
    subset : tuple of int or None
        First and one-past-last pair kept, in ascending order.
    descending : bool
        Store the largest eigenvalue first.
    driver, device, hermitian, check, gauge : str
        As in the config; `driver` is a name, never `auto`.
    hermitian_tol : float
        Largest relative defect max|A - A^H| / max|A| that `strict` accepts.
    threads : int
        Threads for one block.
    """

    n: int
    pairs: int
    dtype: str
    vectors: bool
    subset: tuple[int, int] | None
    descending: bool
    driver: str
    device: str
    hermitian: Literal["strict", "average", "lower", "upper"]
    hermitian_tol: float | None
    check: Literal["probe", "full", "off"]
    gauge: Literal["phase", "cluster", "none"]
    threads: int = 1

    @property
    def real(self) -> np.dtype[Any]:
        """Element type of the eigenvalues."""
        return np.zeros((), self.dtype).real.dtype

    @property
    def band(self) -> NDArray[np.int64]:
        """Index of each stored pair in the full ascending spectrum."""
        lo = self.subset[0] if self.subset else 0
        index = np.arange(lo, lo + self.pairs)
        return index[::-1].copy() if self.descending else index

    def solve(
        self, values: NDArray[Any], missing: NDArray[np.bool_], status: NDArray[np.uint8]
    ) -> dict[str, NDArray[Any]]:
        """Solve the matrices of a block whose status says `ok` on entry.

        Parameters
        ----------
        values : ndarray, shape (*batch, n, n)
            The matrices.
        missing : ndarray of bool, shape batch
            Matrices whose data are not there.
        status : ndarray of uint8, shape batch
            0 where a matrix is to be solved; other codes (masked, not_run) are kept.

        Returns
        -------
        dict of ndarray
            `eigenvalues`, `residual`, `status` and, if wanted, `eigenvectors`;
            NaN wherever there is no valid answer.
        """
        status = np.where((status == 0) & missing, OUTCOMES.index("missing"), status)
        todo = status == 0
        if todo.all():
            return self._solve_all(values)
        results = self.blank(status)
        if todo.any():
            for name, part in self._solve_all(values[todo]).items():
                results[name][todo] = part
        return results

    def as_solved(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return matrices as they are solved, in the lower triangle: the one read, or the mean."""
        a = values.astype(self.dtype, copy=False)
        transposed = np.conj(np.swapaxes(a, -1, -2))
        if self.hermitian == "lower":
            return a
        return transposed if self.hermitian == "upper" else np.asarray(a / 2 + transposed / 2)

    def blank(self, status: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Return the results of a block in which nothing is solved."""
        batch = status.shape
        results: dict[str, NDArray[Any]] = {
            "eigenvalues": np.full((*batch, self.pairs), np.nan, self.real),
            "residual": np.full(batch, np.nan, np.float32),
            "status": status.astype(np.uint8),
        }
        if self.vectors:
            nothing = read_nan(self.dtype)
            results["eigenvectors"] = np.full((*batch, self.n, self.pairs), nothing, self.dtype)
        return results

    def _solve_all(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        from kernels import eigh, fix_gauge  # torch takes a second to load: only where it is used

        answer = eigh(
            values.astype(self.dtype, copy=False),
            vectors=self.vectors,
            subset=self.subset,
            hermitian=self.hermitian,
            hermitian_tol=self.hermitian_tol,
            driver=self.driver,
            check=self.check,
            threads=self.threads,
        )
        turn = slice(None, None, -1 if self.descending else 1)
        results = {
            "eigenvalues": answer.values[..., turn],
            "residual": answer.residual,
            "status": answer.status,
        }
        if self.vectors:
            vectors = answer.vectors
            if self.gauge == "cluster":  # the phase is fixed already
                vectors = fix_gauge(vectors, answer.values, gauge="cluster")
            results["eigenvectors"] = vectors[..., turn]
        return results


def read_nan(dtype: str) -> complex | float:
    """Return the NaN that stands for no answer: in both parts of a complex number."""
    return complex(np.nan, np.nan) if np.dtype(dtype).kind == "c" else np.nan


def design_solver(
    solve: Any, *, n: int, dtype: np.dtype[Any], stored: np.dtype[Any], threads: int
) -> Solver:
    """Turn the `solve` config into a Solver for matrices of `n` rows.

    Raises
    ------
    Misuse
        If the config asks for what these matrices, or this machine, cannot give.
    """
    target = choose_dtype(solve.dtype, dtype)
    subset = choose_subset(solve.subset, solve.largest, n)
    return Solver(
        n=n,
        pairs=subset[1] - subset[0] if subset else n,
        dtype=target.name,
        vectors=solve.vectors,
        subset=subset,
        descending=solve.order.value == "descending",
        driver=choose_route(solve, n, target),
        device="cpu",
        hermitian=solve.hermitian.value,
        hermitian_tol=(
            choose_tolerance(solve.hermitian_tol, n, stored, target)
            if solve.hermitian.value == "strict"
            else None
        ),
        check=solve.check.value,
        gauge=solve.gauge.value if solve.vectors else "none",
        threads=threads,
    )


def choose_dtype(wanted: str | None, given: np.dtype[Any]) -> np.dtype[Any]:
    """Choose the element type to solve in: the input's, unless told otherwise."""
    target = np.dtype(wanted) if wanted else given
    if given.kind == "c" and target.kind != "c":
        raise Misuse(
            f"solve.dtype={wanted} would drop the imaginary part of the {given.name} input; "
            f"use complex64 or complex128, or leave it out to keep {given.name}"
        )
    return target


def choose_subset(subset: list[int] | None, largest: int | None, n: int) -> tuple[int, int] | None:
    """Choose the pairs to keep as `[lo, hi)` in ascending order; None for all of them."""
    if largest is not None:
        if not 1 <= largest <= n:
            raise Misuse(f"solve.largest={largest}: expected 1 to {n}, the rows of these matrices")
        return (n - largest, n) if largest < n else None
    if subset is None:
        return None
    lo, hi = (i + n if i < 0 else i for i in subset)
    if not 0 <= lo < hi <= n:
        raise Misuse(
            f"solve.subset={list(subset)} selects no pairs of a {n} x {n} matrix: expected "
            f"[lo, hi) with 0 <= lo < hi <= {n}; negative numbers count from the top"
        )
    return None if (lo, hi) == (0, n) else (lo, hi)


def choose_tolerance(
    wanted: float | None, n: int, stored: np.dtype[Any], target: np.dtype[Any]
) -> float:
    """Choose the Hermiticity tolerance: 100 n eps of the coarser of storage and solving, at most
    0.1, since in half precision it would soon accept anything."""
    if wanted is not None:
        return wanted
    kinds = [d for d in (stored, target) if d.kind in "fc"]
    return min(0.1, 100 * n * max(float(np.finfo(d).eps) for d in kinds))


def choose_route(solve: Any, n: int, dtype: np.dtype[Any]) -> str:
    """Ask `kernels.choose_driver` once for the whole run, unless the user named a driver."""
    from kernels.drivers import check_driver

    if solve.device.value not in ("auto", "cpu"):
        raise Misuse(
            f"solve.device={solve.device.value}: this version solves on the CPU only; "
            f"use solve.device=auto or cpu"
        )
    try:
        return check_driver(solve.driver, n, dtype.name, "cpu", solve.vectors)
    except ValueError as error:
        raise Misuse(f"solve.driver={solve.driver}, {n} x {n} {dtype.name}: {error}") from error
