"""The rounding stage: results in the precision they are stored in, and proved in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.columns import OUTCOMES
from pipeline.errors import Misuse
from pipeline.stages.solve import Solver, read_nan

PROVED = tuple(OUTCOMES.index(name) for name in ("ok", "repaired"))
FAILED = OUTCOMES.index("failed")


@dataclass(frozen=True)
class Rounding:
    """Which results are stored in a coarser precision than they were solved in.

    Attributes
    ----------
    solver : Solver
        How they were solved.
    dtypes : mapping of str to str
        Element type to store in, by result.
    """

    solver: Solver
    dtypes: Mapping[str, str]

    def round(
        self, matrices: NDArray[Any] | None, results: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Round the results of a block, and prove them again where that can be done.

        Parameters
        ----------
        matrices : ndarray, shape (*batch, n, n), or None
            The matrices; None where none was solved.
        results : mapping of str to ndarray
            As `Solver.solve` returns them.

        Returns
        -------
        dict of ndarray
            The same; `residual` in units of n eps of the coarsest precision stored, and what is
            above the threshold by it, or over- or underflows, `failed`.
        """
        if not self.dtypes:
            return dict(results)
        with np.errstate(over="ignore"):  # what overflows is found below
            rounded = {
                k: v.astype(self.dtypes.get(k, v.dtype), copy=False) for k, v in results.items()
            }
        self._drop_lost(results, rounded)
        proved = np.isin(rounded["status"], PROVED)
        if matrices is not None and proved.any():
            self._prove(matrices[proved], proved, rounded)
        return rounded

    def _drop_lost(
        self, results: Mapping[str, NDArray[Any]], rounded: dict[str, NDArray[Any]]
    ) -> None:
        """Fail what the range of the coarser precision does not hold, proved or not."""
        values, kept = results["eigenvalues"], rounded["eigenvalues"]
        largest = np.abs(values).max(axis=-1, initial=0)
        lost = np.isfinite(values).all(-1) & ~np.isfinite(kept).all(-1)
        lost |= (largest > 0) & (largest < np.finfo(kept.dtype).tiny)
        if lost.any():
            rounded["status"] = rounded["status"].copy()
            self._blank(lost, rounded)
            rounded["residual"] = np.where(lost, np.float32(np.nan), rounded["residual"])

    def _blank(self, lost: NDArray[np.bool_], rounded: dict[str, NDArray[Any]]) -> None:
        rounded["status"][lost] = FAILED
        for name in ("eigenvalues", "eigenvectors"):
            if name in rounded:
                rounded[name][lost] = read_nan(rounded[name].dtype.name)

    def _prove(
        self, matrices: NDArray[Any], proved: NDArray[np.bool_], rounded: dict[str, NDArray[Any]]
    ) -> None:
        from kernels import THRESHOLD

        values, vectors = rounded["eigenvalues"][proved], rounded.get("eigenvectors")
        residual = self._measure(
            matrices,
            values,
            None if vectors is None else vectors[proved],
            rounded["residual"][proved],
        )
        rounded["residual"], rounded["status"] = (
            rounded["residual"].copy(),
            rounded["status"].copy(),
        )
        rounded["residual"][proved] = residual
        lost = proved.copy()
        lost[proved] = ~(residual <= THRESHOLD)
        if lost.any():
            self._blank(lost, rounded)

    def _measure(
        self,
        matrices: NDArray[Any],
        values: NDArray[Any],
        vectors: NDArray[Any] | None,
        before: NDArray[Any],
    ) -> NDArray[Any]:
        from kernels import verify

        solver, turn = self.solver, slice(None, None, -1 if self.solver.descending else 1)
        if vectors is None and solver.subset:  # no sum to compare: what was measured, and the bound
            coarse = np.finfo(values.dtype).eps
            ratio = float(np.finfo(solver.real).eps / coarse)
            finite = np.isfinite(values).all(-1)
            return np.where(finite, before * ratio + 0.5 / solver.n, np.inf).astype(np.float32)
        a, vectors = solver.as_solved(matrices), None if vectors is None else vectors[..., turn]
        found = verify(
            a,
            values[..., turn],
            vectors,
            mode="full" if solver.check == "full" else "probe",
        )
        return np.asarray(found)


def design_rounding(wanted: Mapping[str, str] | None, solver: Solver) -> Rounding:
    """Turn `sink.dtype` into a Rounding.

    Raises
    ------
    Misuse
        If it asks for more digits than there are, or for vectors that are not computed.
    """
    dtypes = {}
    for name, precision in (wanted or {}).items():
        given = solver.real if name == "eigenvalues" else np.dtype(solver.dtype)
        target = np.result_type(np.zeros((), precision).real, 1j if given.kind == "c" else 0.0)
        target = np.dtype(target)
        if np.finfo(target).eps < np.finfo(given).eps:
            raise Misuse(
                f"sink.dtype: {name} in {precision}, but they are solved in {solver.dtype}, which "
                f"has fewer digits; set solve.dtype, or leave sink.dtype out"
            )
        if target != given and (name == "eigenvalues" or solver.vectors):
            dtypes[name] = target.name
    return Rounding(solver, dtypes)
