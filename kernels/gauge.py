"""Signs and phases of eigenvectors, which no equation fixes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from kernels import primitives
from kernels.arguments import as_stack, check_choice


def fix_gauge(vectors: Any, gauge: Literal["phase"] = "phase") -> Any:
    """Make the largest component of each column real and positive.

    Components whose modulus is within sqrt(eps), relatively, of the largest are tied, and the
    first of them is taken, so that rounding cannot choose between components that symmetry makes
    equal. Applied twice it changes nothing more. Elementwise + * / sqrt alone: the result depends
    on the column alone. Columns that are not finite, or zero, are left as they are.

    Parameters
    ----------
    vectors : (..., n, m) numpy.ndarray or torch.Tensor
        Columns; float32, float64, complex64 or complex128.
    gauge : "phase"
        The rule.

    Returns
    -------
    (..., n, m) of the same kind, dtype and device; the input is not changed.

    Raises
    ------
    ValueError
        For another type, dtype or gauge.
    """
    check_choice("gauge", gauge, ("phase",))
    stack = as_stack(vectors, "fix_gauge")
    out = np.empty((stack.count, *stack.item), stack.dtype)
    for start, stop in stack.pieces():
        out[start:stop] = stack.take(start, stop)
        primitives.gauge(out[start:stop])
    return stack.give(out.reshape(*stack.batch, *stack.item))
