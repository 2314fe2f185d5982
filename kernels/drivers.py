"""The rule that picks a driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernels.arguments import DTYPES, check_choice

DRIVERS = ("lapack",)


def choose_driver(n: int, dtype: Any, device: Any = "cpu", vectors: bool = True) -> str:
    """Name of the driver that `driver="auto"` means.

    The rule is constant within a release: "lapack" always. Tensors on another device are solved
    on the host and the answer is brought back.

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
    name = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else None
    try:
        check_choice("dtype", name or np.dtype(dtype).name, DTYPES)
        torch.device(device)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"choose_driver: got dtype {dtype!r} and device {device!r}, expected "
            f"{', '.join(DTYPES)} and a torch device"
        ) from error
    if n < 1:
        raise ValueError(f"choose_driver: got n = {n}, expected n >= 1")
    return "lapack"


def check_driver(driver: str, n: int, dtype: Any, device: Any, vectors: bool) -> str:
    """Resolve "auto" and refuse a name that is no driver."""
    check_choice("driver", driver, ("auto", *DRIVERS))
    return choose_driver(n, dtype, device, vectors) if driver == "auto" else driver
