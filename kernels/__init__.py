"""Eigendecompositions of stacks of Hermitian matrices, each one proved.

Tensors in, tensors out; numpy or torch. Knows nothing of dask, zarr, xarray or hydra.
"""

from __future__ import annotations

from pkgutil import extend_path

# In a checkout, with a plain install beside it, the compiled module lies in the installed package
# only: `python -m pipeline` there finds the checkout's `kernels` first.
__path__ = extend_path(__path__, __name__)

from kernels import linalg
from kernels.bands import Bands, connect_bands
from kernels.drivers import choose_driver
from kernels.functions import expm, logm, matrix_power, sqrtm
from kernels.gauge import fix_gauge
from kernels.many import eigh_many
from kernels.residual import verify
from kernels.result import THRESHOLD, Eigen, Status
from kernels.solve import eigh, eigvalsh

__distribution__ = "eigenstream"

__all__ = [
    "THRESHOLD",
    "Bands",
    "Eigen",
    "Status",
    "choose_driver",
    "connect_bands",
    "eigh",
    "eigh_many",
    "eigvalsh",
    "expm",
    "fix_gauge",
    "linalg",
    "logm",
    "matrix_power",
    "sqrtm",
    "verify",
]
