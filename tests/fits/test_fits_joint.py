"""Parameters that a stack shares; checkpoints; capture; compiled steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fit_cases as cases
import numpy as np
import pytest
import torch

import kernels
from kernels import FitStatus
from kernels.fits.compiled import compare_compiled
from kernels.fits.descent import Steps, make_optimizer

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Stack:
    """Curves of one shape, in blocks."""

    def __init__(self, blocks: int = 3, noise: float = 0.05) -> None:
        x, true = torch.from_numpy(cases.X), torch.tensor([2.0, 0.3, 0.8, 0.5])
        rng = np.random.default_rng(0)
        clean = cases.peak(x, true.to(torch.float64)[None])
        self.x, self.calls = x, 0
        self.blocks = [clean + noise * torch.from_numpy(rng.standard_normal((4, 50)))
                       for _ in range(blocks)]  # fmt: skip
        self.blocks[1][2, 7] = torch.nan

    def evaluate(self, params: Any, second: bool) -> Any:
        self.calls += 1
        return [
            kernels.sum_block(lambda p, y=y: cases.peak(self.x, p[None]) - y, params, second)
            for y in self.blocks
        ]

    def reference(self) -> Any:
        y = torch.cat(self.blocks).reshape(-1).numpy()
        return kernels.fit(cases.peak, np.tile(cases.X, 12), y, [2.2, 0.2, 0.7, 0.4], tol=1e-10)


START = [2.2, 0.2, 0.7, 0.4]


@pytest.mark.parametrize("start", [START, [9.0, -1.0, 0.2, -3.0]])
def test_as_one_long_curve(start: list[float]) -> None:
    stack = Stack()
    found = kernels.fit_global(stack.evaluate, start, tol=1e-10)
    one = stack.reference()
    assert found.converged and found.params.shape == (4,) and found.iterations == stack.calls
    assert np.abs(found.params / one.params - 1).max() < 1e-9
    assert np.abs(found.stderr / one.stderr - 1).max() < 1e-7
    assert abs(found.chi2 / one.chi2 - 1) < 1e-12 and abs(found.redchi / one.redchi - 1) < 1e-12


def test_bounds_fixed_and_exact_data() -> None:
    found = kernels.fit_global(Stack().evaluate, START, fixed={1: 0.25}, bounds={2: (0.1, 0.6)})
    assert found.status == FitStatus.bound and found.parameter == 2 and found.params[1] == 0.25
    exact = kernels.fit_global(Stack(noise=0.0).evaluate, START)
    assert exact.converged and np.abs(exact.params - [2, 0.3, 0.8, 0.5]).max() < 1e-7


@pytest.mark.parametrize("start", [START, [9.0, -1.0, 0.2, -3.0]])
def test_broken_off_anywhere_it_ends_with_the_same_bits(tmp_path: Path, start: list[float]) -> None:
    whole = Stack()
    expected = kernels.fit_global(whole.evaluate, start, steps=30)
    path, stack = tmp_path / "fit.pt", Stack()

    class Broken(Exception):
        pass

    def break_off(budget: int) -> Any:
        left = iter(range(budget))

        def evaluate(params: Any, second: bool) -> Any:
            if next(left, None) is None:
                raise Broken
            return stack.evaluate(params, second)

        return evaluate

    broken = 0
    while True:
        try:
            how: dict[str, Any] = {"steps": 30, "checkpoint": path, "every": 1}
            found = kernels.fit_global(break_off(4), start, **how)
        except Broken:
            broken += 1
            continue
        break
    assert broken >= 1
    assert cases.differing(found, expected) == []
    again = kernels.fit_global(break_off(0), start, **how)
    assert cases.differing(again, expected) == [] and list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="of another fit, with another start"):
        kernels.fit_global(break_off(0), [1.0, 1, 1, 1], **how)


def test_the_random_state_goes_on(tmp_path: Path) -> None:
    torch.manual_seed(3)
    path = tmp_path / "fit.pt"
    kernels.fit_global(Stack().evaluate, START, checkpoint=path, every=1)
    expected = torch.rand(3)
    torch.manual_seed(4)
    kernels.fit_global(Stack().evaluate, START, checkpoint=path)
    assert torch.equal(torch.rand(3), expected)


def test_an_eigenvalue_model() -> None:
    """Bands of a chain with two orbitals: hopping and splitting from the eigenvalues."""
    k = torch.linspace(0, 3, 20, dtype=torch.float64)

    def bands(p: Any) -> Any:
        off = p[0] + p[1] * torch.cos(k)
        h = torch.stack(
            [torch.stack([p[2] + 0 * k, off], -1), torch.stack([off, -p[2] + 0 * k], -1)], -1
        )
        return kernels.eigvalsh(h).values

    target = bands(torch.tensor([1.0, 0.4, 0.7], dtype=torch.float64))
    found = kernels.fit_global(
        lambda p, second: kernels.sum_block(lambda q: bands(q) - target, p, second),
        [1.1, 0.36, 0.77],
    )
    assert found.converged and np.abs(found.params - [1, 0.4, 0.7]).max() < 1e-7


def test_captured_is_eager_on_the_cpu() -> None:
    params = torch.ones(4, 64, dtype=torch.float64, requires_grad=True)
    optimizer = make_optimizer(Steps("adam", 1, 0.1, "constant"), params)

    def step(gradient: Any) -> Any:
        params.grad = gradient.clone()
        optimizer.step()
        return params.detach().clone()

    captured = kernels.Captured(step, mutates=lambda: [params])
    first = captured(torch.ones_like(params))
    assert not captured.graph and torch.allclose(first, torch.full_like(first, 0.9))


@pytest.mark.slow
def test_a_compiled_step_has_the_bits_of_an_eager_one() -> None:
    found = compare_compiled(("adam", "sgd"), 3)
    assert all(v == "equal" or v.startswith("not compiled") for v in found.values()), found
    y, _, start = cases.curves(70)
    how: dict[str, Any] = {"method": "adam", "steps": 5}
    eager = kernels.fit(cases.peak, cases.X, y, start, **how)
    compiled = kernels.fit(cases.peak, cases.X, y, start, compile=True, **how)
    assert cases.differing(eager, compiled) == []
