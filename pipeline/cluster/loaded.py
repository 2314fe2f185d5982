"""What a worker needs, loaded by importing this: see `nursery`."""

import distributed.nanny
import distributed.worker  # noqa: F401

import pipeline.run  # noqa: F401
