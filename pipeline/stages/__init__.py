"""Stages: arrays in, arrays out; none knows who runs it."""
