"""The groups of a config: one file a group, one dataclass each, plain values only.

Units and defaults stand in the docstrings, from which the table in docs/configuration.md is made
(`pipeline.keys.describe`); what a key may be is checked in `__post_init__`.
"""
