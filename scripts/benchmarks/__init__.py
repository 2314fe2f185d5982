"""One file a verb of `scripts/bench.py`."""
