"""Drop-in forms of torch.linalg."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from kernels.result import Status
from kernels.solve import eigh as _eigh


def eigh(a: torch.Tensor, UPLO: Literal["L", "U"] = "L") -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors as `torch.linalg.eigh` gives them, with every answer proved.

    Raises
    ------
    torch.linalg.LinAlgError
        If any matrix is not finite or its answer does not pass; torch itself returns wrong
        numbers for some such input.
    ValueError
        For arguments that make no sense; a tensor that requires grad among them.
    """
    if UPLO not in ("L", "U"):
        raise ValueError(f"UPLO: got {UPLO!r}, expected 'L' or 'U'")
    if not isinstance(a, torch.Tensor):
        raise ValueError(f"kernels.linalg.eigh: got {type(a).__qualname__}, expected torch.Tensor")
    found = _eigh(a, hermitian="lower" if UPLO == "L" else "upper")
    bad = (found.status > Status.repaired).nonzero()
    if len(bad):
        index = tuple(bad[0].tolist())
        name = Status(int(found.status[index])).name
        raise LinAlgError(
            f"linalg.eigh: (Batch element {index}): {name}; {len(bad)} of "
            f"{found.status.numel()} matrices have no proved decomposition"
        )
    # torch's own named pair, which its stubs do not know
    named: Any = torch.return_types
    pair: tuple[torch.Tensor, torch.Tensor] = named.linalg_eigh((found.values, found.vectors))
    return pair
