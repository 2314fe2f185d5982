"""What a worker needs, loaded by importing this: see `nursery`."""

import signal

import distributed.nanny
import distributed.worker  # noqa: F401

from pipeline.signals import SIGNALS

for number in SIGNALS:
    # both may reach the whole group; the client decides what becomes of the work
    signal.signal(number, signal.SIG_IGN)
