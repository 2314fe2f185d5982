"""The inner loops: C++ where it is built, the same written order in torch where it is not."""

from __future__ import annotations

import warnings

try:
    from kernels._core import (
        few,
        gauge,
        lanes,
        lanes_sets,
        lapack,
        pencil_back,
        pencil_reduce,
        pencil_residual,
        places,
        residual,
        scan,
    )
except ImportError as error:  # pragma: no cover - depends on the installation
    # `lanes` is there to be named: with no set in `lanes_sets` it is never called
    from kernels.plain import (  # type: ignore[assignment]
        gauge,
        lanes,
        lanes_sets,
        lapack,
        residual,
        scan,
    )
    from kernels.plain_pairs import few, pencil_back, pencil_reduce, pencil_residual, places

    warnings.warn(
        f"kernels: the compiled module kernels._core is missing ({error}); the slow torch "
        "fallback is used. Reinstall eigenstream, or build it with `pip install -e .`",
        RuntimeWarning,
        stacklevel=2,
    )

LOWER, UPPER, BOTH = 0, 1, 2
"""Which triangle is read; BOTH reads (A + A^H) / 2."""

__all__ = [
    "BOTH",
    "LOWER",
    "UPPER",
    "few",
    "gauge",
    "lanes",
    "lanes_sets",
    "lapack",
    "pencil_back",
    "pencil_reduce",
    "pencil_residual",
    "places",
    "residual",
    "scan",
]
