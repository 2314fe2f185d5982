"""Batched fits: fused optimizers, Levenberg-Marquardt, exact derivatives, one status a curve."""
