"""The spectrum stage: density of states, band extents and filling, from stored eigenvalues."""

from __future__ import annotations

from pipeline.stages.spectrum.passes import check_request, compute_spectrum
from pipeline.stages.spectrum.stack import Stack
from pipeline.stages.spectrum.weights import find_weights, slice_weights

__all__ = ["Stack", "check_request", "compute_spectrum", "find_weights", "slice_weights"]
