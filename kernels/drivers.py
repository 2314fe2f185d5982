"""The rule that picks a driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import lanes
from kernels.arguments import DTYPES, check_choice

DRIVERS = ("lanes", "lapack")
LARGEST_IN_LANES = dict.fromkeys(DTYPES, 128)
"""Largest n for "lanes", by dtype. `scripts/bench.py tune` measures both drivers; the table is in
docs/benchmarks.md. The limit is not where "lapack" begins to win: one matrix costs "lanes" as much
as a register full, and that grows with n."""


def choose_driver(n: int, dtype: Any, device: Any = "cpu", vectors: bool = True) -> str:
    """Name of the driver that `driver="auto"` means.

    The rule is constant within a release: "lanes" (one matrix in each SIMD lane) up to the n of
    LARGEST_IN_LANES, "lapack" above, and "lapack" always where the compiled module is missing. The
    batch does not enter, so that a short last block cannot change bits. Tensors on another device
    are solved on the host and the answer is brought back.

    Parameters
    ----------
    n : int
        Size of the matrices, at least 1.
    dtype : str, numpy.dtype or torch.dtype
        float32, float64, complex64 or complex128.
    device : str or torch.device
        Where the matrices are.
    vectors : bool
        Whether vectors are wanted.

    Raises
    ------
    ValueError
        For a size, dtype or device that no driver takes.
    """
    try:
        text = str(dtype)
        name = text[6:] if text.startswith("torch.") else np.dtype(dtype).name
        check_choice("dtype", name, DTYPES)
        _check_device(device)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"choose_driver: got dtype {dtype!r} and device {device!r}, expected "
            f"{', '.join(DTYPES)} and a torch device"
        ) from error
    if n < 1:
        raise ValueError(f"choose_driver: got n = {n}, expected n >= 1")
    return "lanes" if lanes.SETS and n <= LARGEST_IN_LANES[name] else "lapack"


def _check_device(device: Any) -> None:
    if device != "cpu":
        import torch

        torch.device(device)


def check_driver(driver: str, n: int, dtype: Any, device: Any, vectors: bool) -> str:
    """Resolve "auto" and refuse a name that is no driver."""
    check_choice("driver", driver, ("auto", *DRIVERS))
    if driver == "lanes" and (not lanes.SETS or n > lanes.LARGEST):
        raise ValueError(
            f"driver: got 'lanes' for n = {n}, expected n <= {lanes.LARGEST} and the compiled "
            "module kernels._core; use driver='lapack'"
        )
    return choose_driver(n, dtype, device, vectors) if driver == "auto" else driver
