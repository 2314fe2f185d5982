"""Eigendecompositions of stacks of Hermitian matrices, each one proved; fits of stacks of curves.

Tensors in, tensors out; numpy or torch. Knows nothing of dask, zarr, xarray or hydra.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# In a checkout, with a plain install beside it, the compiled module lies in the installed package
# only: `python -m pipeline` there finds the checkout's `kernels` first.
__path__ = extend_path(__path__, __name__)

from kernels.drivers import choose_driver
from kernels.gauge import fix_gauge
from kernels.residual import verify
from kernels.result import THRESHOLD, Eigen, Status
from kernels.solve import eigh, eigvalsh

if TYPE_CHECKING:
    from kernels import linalg, models
    from kernels.bands import Bands, connect_bands
    from kernels.captured import Captured
    from kernels.fits.blocks import Sums, sum_block
    from kernels.fits.curves import fit
    from kernels.fits.joint import fit_global
    from kernels.fits.result import Fit, FitStatus
    from kernels.functions import expm, logm, matrix_power, sqrtm
    from kernels.many import eigh_many
    from kernels.models.marchenko_pastur import Noise, marchenko_pastur

__distribution__ = "eigenstream"

__all__ = [
    "THRESHOLD",
    "Bands",
    "Captured",
    "Eigen",
    "Fit",
    "FitStatus",
    "Noise",
    "Status",
    "Sums",
    "choose_driver",
    "connect_bands",
    "eigh",
    "eigh_many",
    "eigvalsh",
    "expm",
    "fit",
    "fit_global",
    "fix_gauge",
    "linalg",
    "logm",
    "marchenko_pastur",
    "matrix_power",
    "models",
    "sqrtm",
    "sum_block",
    "verify",
]

_WITH_TORCH = {
    **dict.fromkeys(("linalg", "models", "operators"), ""),
    **dict.fromkeys(("Bands", "connect_bands"), "bands"),
    **dict.fromkeys(("expm", "logm", "matrix_power", "sqrtm"), "functions"),
    "eigh_many": "many",
    "Captured": "captured",
    "fit": "fits.curves",
    "fit_global": "fits.joint",
    **dict.fromkeys(("Noise", "marchenko_pastur"), "models.marchenko_pastur"),
    **dict.fromkeys(("Sums", "sum_block"), "fits.blocks"),
    **dict.fromkeys(("Fit", "FitStatus"), "fits.result"),
}


def __getattr__(name: str) -> Any:
    """Load what is made of torch, and its operators, when it is asked for: it takes a second."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    module = import_module(f"kernels.{_WITH_TORCH[name] or name}")
    found = module if not _WITH_TORCH[name] else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "torch" in sys.modules:  # its operators are there as soon as both are
    import_module("kernels.operators")
    for _name in _WITH_TORCH:
        __getattr__(_name)
