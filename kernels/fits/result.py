"""What a fit hands back."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class FitStatus(enum.IntEnum):
    """What became of one fit; the flag values are part of the stored format.

    converged : at a minimum, with all errors that the model has
    limit : more steps were needed than were allowed; the best parameters so far, no errors
    singular : at a minimum that does not determine a parameter; no errors
    no_data : fewer points than free parameters; no parameters
    nonfinite : data, start or model are not finite; no parameters
    bound : at a minimum with a parameter at its bound; that one has no error
    """

    converged = 0
    limit = 1
    singular = 2
    no_data = 3
    nonfinite = 4
    bound = 5


class Fit(NamedTuple):
    """Fits of a stack of curves, of the kind (numpy or torch) and precision of the data.

    What can't be had is NaN.

    Attributes
    ----------
    params : (..., p)
    stderr : (..., p) standard errors; 0 for fixed parameters
    covariance : (..., p, p)
    chi2 : (...) what was minimised: the sum of squares of (y - f) / sigma, or of the robust loss
    status : (...) uint8, a `FitStatus` each
    converged : (...) bool: status `converged` or `bound`
    iterations : (...) int32, evaluations of the model and its derivatives
    redchi : (...) chi2 / (points - free parameters)
    r2 : (...) 1 - chi2 / (sum of squares about the weighted mean)
    parameter : (...) int16, index of the parameter that is singular or at its bound; else -1
    """

    params: Any
    stderr: Any
    covariance: Any
    chi2: Any
    status: Any
    converged: Any
    iterations: Any
    redchi: Any
    r2: Any
    parameter: Any
