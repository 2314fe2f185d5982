"""Eigendecompositions of stacks of Hermitian matrices, each one proved.

Tensors in, tensors out; numpy or torch. Knows nothing of dask, zarr, xarray or hydra.
"""

from __future__ import annotations

from pkgutil import extend_path

# In a checkout, with a plain install beside it, the compiled module lies in the installed package
# only: `python -m pipeline` there finds the checkout's `kernels` first.
__path__ = extend_path(__path__, __name__)

from kernels import linalg
from kernels.drivers import choose_driver
from kernels.gauge import fix_gauge
from kernels.residual import verify
from kernels.result import THRESHOLD, Eigen, Status
from kernels.solve import eigh, eigvalsh

__distribution__ = "eigenstream"

__all__ = [
    "THRESHOLD",
    "Eigen",
    "Status",
    "choose_driver",
    "eigh",
    "eigvalsh",
    "fix_gauge",
    "linalg",
    "verify",
]
