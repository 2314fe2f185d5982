"""Models of curves, by name; with lmfit's parameter names and meanings where lmfit has them.

A name is one of `NAMES`, `polynomialN` with a degree N of 0 to 7, or a sum of several, as in
`gaussian + lorentzian + linear`. In a sum each parameter bears the name of its part before it
(`gaussian_center`), with a number if the part is there more than once (`gaussian1_center`).
"""

from __future__ import annotations

from kernels.models.faddeeva import faddeeva
from kernels.models.names import NAMES, find
from kernels.models.parts import Guess, Model

__all__ = ["NAMES", "Guess", "Model", "faddeeva", "find"]
