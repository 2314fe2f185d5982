"""An S3 of our own on loopback, stores on it, and a way to break it."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "pipeline"))  # for run_cases

from bucket_runs import JOB, launch
from run_cases import draw_hermitian, write_stack
from storage_cases import Bucket, Moto, Troubled


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    """A server that speaks S3; ended by its own process id."""
    pytest.importorskip("obstore", reason="pip install eigenstream[test-cloud]")
    pytest.importorskip("moto.server", reason="pip install eigenstream[test-cloud]")
    server = Moto()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def bucket(moto: Moto, request: pytest.FixtureRequest) -> Bucket:
    """A new bucket for each test."""
    name = f"b{abs(hash(request.node.nodeid))}"
    urllib.request.urlopen(urllib.request.Request(f"{moto.url}/{name}", method="PUT"))
    return Bucket(name, moto.url)


@pytest.fixture
def troubled(moto: Moto) -> Iterator[Troubled]:
    """The same server, behind a proxy that can break it."""
    proxy = Troubled(moto.port)
    try:
        yield proxy
    finally:
        proxy.stop()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 12 x 10 complex matrices of 6 x 6, in chunks of 3 x 5."""
    matrices = draw_hermitian(np.random.default_rng(1), 12, 10, 6)
    return write_stack(tmp_path_factory.mktemp("in") / "in.zarr", matrices, (3, 5))


@pytest.fixture(scope="session")
def whole(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job, written to a folder."""
    out = tmp_path_factory.mktemp("whole") / "out.zarr"
    assert launch(stack, f"sink.path={out}", *JOB).code == 0
    return out
