"""Drop-in forms of torch.linalg."""

from __future__ import annotations

from typing import Any, Literal

import torch

from kernels import operators
from kernels.result import Eigen
from kernels.solve import eigh as _eigh


def eigh(a: torch.Tensor, UPLO: Literal["L", "U"] = "L") -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors as `torch.linalg.eigh` gives them, with every answer proved.

    Differentiable as `kernels.eigh` is, and fit for torch.compile and torch.export.

    Raises
    ------
    torch.linalg.LinAlgError
        If any matrix is not finite or its answer does not pass; torch itself returns wrong
        numbers for some such input.
    ValueError
        For arguments that make no sense.
    """
    found = _solve("eigh", a, UPLO, True)
    # torch's own named pair, which its stubs do not know
    named: Any = torch.return_types
    pair: tuple[torch.Tensor, torch.Tensor] = named.linalg_eigh((found.values, found.vectors))
    return pair


def eigvalsh(a: torch.Tensor, UPLO: Literal["L", "U"] = "L") -> torch.Tensor:
    """Eigenvalues as `torch.linalg.eigvalsh` gives them; see `eigh`."""
    values: torch.Tensor = _solve("eigvalsh", a, UPLO, False).values
    return values


def _solve(name: str, a: torch.Tensor, uplo: str, vectors: bool) -> Eigen:
    if uplo not in ("L", "U"):
        raise ValueError(f"UPLO: got {uplo!r}, expected 'L' or 'U'")
    if not isinstance(a, torch.Tensor):
        raise ValueError(f"kernels.linalg.{name}: got {type(a)}, expected torch.Tensor")
    found = _eigh(a, vectors=vectors, hermitian="lower" if uplo == "L" else "upper")
    if not operators.is_followed(a):
        operators.raise_for(found.status)
        return found
    values = operators.proved(found.values, found.status)
    return Eigen(values, found.vectors, found.residual, found.status)
