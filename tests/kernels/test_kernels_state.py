"""What a call must leave as it found it, and what an import may load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels import lapack

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, cwd=ROOT
    )


def threads_seen() -> list[int]:
    """torch's number of threads in this thread, in a new one, and MKL's own where there is MKL."""
    seen = [torch.get_num_threads()]
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    mkl = lapack._function("MKL_Get_Max_Threads")
    return [*seen, mkl() if mkl else 0]


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_threads_and_random_state_are_left_alone(threads: int | None) -> None:
    a = np.concatenate([cases.Case(cases.random, 33, "complex128").build()] * 20)
    big = torch.from_numpy(np.random.default_rng(0).standard_normal((500, 500)))
    before = threads_seen(), torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    product = big @ big
    kernels.eigh(a, threads=threads)
    kernels.eigh(torch.from_numpy(a), vectors=False, threads=threads)
    assert threads_seen() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert torch.equal(big @ big, product)


def test_callers_own_setting_survives() -> None:
    """In a thread with its own MKL setting, and when the solver raises; the bits ignore it."""
    local = lapack._function("MKL_Set_Num_Threads_Local")
    if local is None:
        pytest.skip("torch's LAPACK is not MKL")
    before = local(2)
    try:
        with pytest.raises(RuntimeError), lapack.one_thread():
            assert lapack._function("MKL_Get_Max_Threads")() == 1
            raise RuntimeError
        a = cases.Case(cases.random, 64, "float64").build()
        two = cases.bits(kernels.eigh(a, threads=1))
        assert local(1) == 2
        assert cases.bits(kernels.eigh(a, threads=1)) == two
    finally:
        local(before)


def test_many_callers_at_once() -> None:
    a = np.concatenate([cases.Case(cases.random, 16, "float64").build()] * 200)
    alone = cases.bits(kernels.eigh(a, threads=1))
    results: list[list[bytes]] = []

    def work() -> None:
        results.append(cases.bits(kernels.eigh(a, threads=2)))

    callers = [threading.Thread(target=work) for _ in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert results == [alone] * 6


def test_flushing_of_subnormal_numbers_is_put_aside() -> None:
    a = cases.Case(cases.random, 3, "float64", 1e-310).build()
    found = cases.bits(kernels.eigh(a))
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormal numbers")
    try:
        flushed = cases.bits(kernels.eigh(a, threads=1))
        still = float(torch.tensor([1e-310], dtype=torch.float64)[0] * 1.0)
    finally:
        torch.set_flush_denormal(False)
    assert flushed == found and still == 0.0


def test_import_loads_no_pipeline() -> None:
    done = run(
        "import kernels, numpy, sys; kernels.eigh(numpy.eye(3)); "
        "print({'dask', 'zarr', 'xarray', 'hydra', 'omegaconf', 'pipeline'} & set(sys.modules))"
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_without_the_compiled_module_one_warning_and_the_same_answer(tmp_path: Path) -> None:
    """In a copy of the package that lacks it, beside all else that is installed."""
    package, left_out = Path(kernels.__file__).parent, shutil.ignore_patterns("_core*", "csrc")
    shutil.copytree(package, tmp_path / "kernels", ignore=left_out)
    for entry in Path(np.__file__).parents[1].iterdir():
        if entry.name != "kernels":
            (tmp_path / entry.name).symlink_to(entry)
    code = (
        "import kernels, numpy as np; found = kernels.eigh(np.diag([3.0, 1.0, 2.0])); "
        "print(found.values, found.status, kernels.choose_driver(3, 'float64'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-W", "always", "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1. 2. 3.] 0 lapack\n", done.stderr
    assert done.stderr.count("RuntimeWarning") == 1 and "pip install" in done.stderr


def test_scipys_lapack_serves_where_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cases.Case(cases.random, 8, "complex128").build()
    plain = kernels.eigh(a)
    lapack.find_routine.cache_clear()
    monkeypatch.setattr(lapack, "_function", lambda name: None)
    try:
        found = kernels.eigh(a)
    finally:
        lapack.find_routine.cache_clear()
    assert (found.status == 0).all()
    assert np.abs(found.values - plain.values).max() < 1e-14


def test_arrays_of_numpy_need_no_torch() -> None:
    """It takes a second to load, and 200 MB a process; what is made of it loads it when needed."""
    done = run(
        "import sys, numpy as np, kernels; a = np.eye(3)[None]; "
        "w, v, *_ = kernels.eigh(a, threads=1); kernels.fix_gauge(v); kernels.verify(a, w, v); "
        "kernels.choose_driver(3, 'float64'); print('torch' in sys.modules, end=' '); "
        "kernels.expm(a); print('torch' in sys.modules, set(kernels.__all__) <= set(dir(kernels)))"
    )
    assert (done.stdout, done.stderr) == ("False True True\n", "")


def test_operators_are_there_as_soon_as_torch_and_kernels_are() -> None:
    done = run(
        "import torch, kernels; print(hasattr(torch.ops.eigenstream, 'eigh'), end=' '); "
        "f = torch.compile(lambda x: kernels.eigh(x).values, backend='eager', fullgraph=True); "
        "print(f(torch.eye(2, dtype=torch.float64)).tolist())"
    )
    assert done.stdout == "True [1.0, 1.0]\n"
    done = run(
        "import kernels, torch; "
        "f = torch.compile(lambda x: kernels.eigh(x).values, backend='eager', fullgraph=True); "
        "print(f(torch.eye(2, dtype=torch.float64)).tolist())"
    )
    assert done.stdout == "[1.0, 1.0]\n", done.stderr
