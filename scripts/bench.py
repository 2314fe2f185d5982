"""Measure what docs/benchmarks.md states: `python scripts/bench.py VERB`.

Every figure is a ratio of two things measured in one run, in turns, because machines are shared
and noisy. The tables go to standard output and, between their markers, into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

VERBS = {
    "memory": "peak memory against the size of the store",
    "stream": "a whole job against xarray.apply_ufunc of numpy on a LocalCluster",
    "overhead": "the demo, a block, and a second worker",
    "plan": "what `plan` estimates against what a run takes",
    "kernels": "kernels.eigh against numpy, scipy, jax and torch",
    "tune": "each driver against the others: the figures behind choose_driver",
    "subset": "a few pairs against the whole spectrum: the figures behind kernels.subset.is_few",
    "generalized": "A x = lambda B x against scipy in a loop",
    "call": "what one call costs, whatever it has to solve",
    "fit": "kernels.fit against scipy's curve_fit in a loop; fused steps; NIST digits",
    "probe": "injected errors that the probe misses, honest matrices that it alarms at",
}
HANDICAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def main() -> None:
    """Parse the command line and run one benchmark."""
    if any(name in os.environ for name in HANDICAPS):  # numpy's own choice of kernel, not ours
        plain = {k: v for k, v in os.environ.items() if k not in HANDICAPS}
        os.execve(sys.executable, [sys.executable, *sys.argv], plain)
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    chosen = next((a for a in sys.argv[1:] if a in VERBS), None)
    for verb, about in VERBS.items():
        sub = verbs.add_parser(verb, help=about)
        if verb == chosen:  # jax and torch take seconds to load: only for the verb that needs them
            importlib.import_module(f"benchmarks.{verb}").add_arguments(sub)
    options = parser.parse_args()
    importlib.import_module(f"benchmarks.{options.verb}").run(options)


if __name__ == "__main__":
    main()
