"""Signs, phases and bases of eigenvectors, which no equation fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernels import primitives
from kernels.arguments import Array, Stack, as_stack, check_choice, is_tensor

if TYPE_CHECKING:
    import torch

Pair = tuple[Array, Array]


def fix_gauge(
    vectors: Any,
    values: Any = None,
    gauge: Literal["phase", "cluster"] = "phase",
    *,
    tol: float | None = None,
) -> Any:
    """Make eigenvectors unique: their signs or phases, and bases of equal eigenvalues.

    "phase": the largest component of each column becomes real and positive. Components whose
    modulus is within sqrt(eps), relatively, of the largest are tied, and the first of them is
    taken, so that rounding cannot choose between components that symmetry makes equal.

    "cluster": the same, and inside each cluster of eigenvalues the basis that depends on its span
    alone: the first column is the normalised projection on the span of the unit vector e_j for
    which that projection is longest (lengths within sqrt(eps) are tied, the first counts), and so
    on in what is left of the span. A cluster is a chain of gaps of at most `tol` max|values|.

    Applied twice neither changes anything more. Elementwise + - * / sqrt in one written order,
    without fused operations: the result depends on the vectors of one matrix alone, on any
    machine. Columns that are not finite, or zero, are left as they are.

    Parameters
    ----------
    vectors : (..., n, m) numpy.ndarray or torch.Tensor
        Columns; float32, float64, complex64 or complex128. "phase" is differentiable, and makes
        a loss independent of the phases that came in.
    values : (..., m), for "cluster"
        Their eigenvalues, ascending.
    gauge : "phase" or "cluster"
        The rule.
    tol : float, optional
        Default 4 n eps: gaps that rounding alone explains. Vectors that are mixed over a wider
        gap are no eigenvectors to working precision any more.

    Returns
    -------
    (..., n, m) of the same kind, dtype and device; the input is not changed.

    Raises
    ------
    ValueError
        For another type, dtype, shape or gauge, or a gradient through "cluster".
    """
    check_choice("gauge", gauge, ("phase", "cluster"))
    if gauge == "cluster" and values is None:
        raise ValueError("fix_gauge: gauge='cluster' needs the values, fix_gauge(vectors, values)")
    if tol is not None and not 0 <= tol < 1:
        raise ValueError(f"fix_gauge: got tol = {tol!r}, expected 0 <= tol < 1, or None")
    if is_tensor(vectors) and _wants_gradient(vectors):
        if gauge == "cluster":
            raise ValueError(
                "fix_gauge: got vectors that require grad, and gauge='cluster' has no gradient; "
                "pass vectors.detach(), or use projectors in the loss"
            )
        return _turn(vectors, fix_gauge(vectors.detach()))
    stack = as_stack(vectors, "fix_gauge")
    lambdas = None if gauge == "phase" else as_stack(values, "fix_gauge: values", 1)
    if lambdas is not None:
        _check_values(stack, lambdas)
    out = np.empty((stack.count, *stack.item), stack.dtype)
    for start, stop in stack.pieces():
        out[start:stop] = stack.take(start, stop)
        if lambdas is not None:
            _fix_clusters(out[start:stop], lambdas.take(start, stop), tol)
        primitives.gauge(out[start:stop])
    return stack.give(out.reshape(*stack.batch, *stack.item))


def _wants_gradient(vectors: torch.Tensor) -> bool:
    import torch

    return vectors.requires_grad and torch.is_grad_enabled()


def _turn(vectors: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
    """Differentiably: each column over the phase of its pivot, which `fixed` shows."""
    import torch

    with torch.no_grad():
        real = fixed.imag == 0 if fixed.is_complex() else torch.ones_like(fixed, dtype=torch.bool)
        size = torch.where(real & (fixed.abs() > 0), fixed.abs(), -1)
        pivot = size.argmax(-2, keepdim=True)
        square = (vectors.abs() ** 2).sum(-2, keepdim=True)
        start = vectors.detach() / torch.where(square > 0, square, 1)
    if vectors.is_complex():
        # nothing is taken away, but a cotangent's part along the phase: all of it is rounding
        along = (start.conj() * vectors).sum(-2, keepdim=True).imag
        vectors = vectors - 1j * vectors.detach() * along
    p = vectors.gather(-2, pivot)
    if not vectors.is_complex():
        return vectors * p.detach().sign() * fixed.detach().gather(-2, pivot).sign()
    size = p.abs()
    safe = torch.where(size > 0, size, 1)
    return vectors * torch.where(size > 0, p.conj() / safe, 1)


def _check_values(vectors: Stack, values: Stack) -> None:
    if values.dtype.kind == "c" or values.batch != vectors.batch or values.item != vectors.item[1:]:
        raise ValueError(
            f"fix_gauge: got values of shape {values.array.shape} and dtype {values.dtype}, "
            f"expected real {(*vectors.batch, vectors.item[1])}"
        )


def find_clusters(values: Array, tol: float) -> Array:
    """(count, m) index of each value's cluster: chains of gaps of at most tol max|values|."""
    with np.errstate(invalid="ignore", over="ignore"):
        norm = np.abs(values).max(-1, keepdims=True, initial=0)
        # a value that is not finite stands alone
        apart = ~(np.abs(np.diff(values)) <= tol * norm) | ~np.isfinite(np.diff(values))
    label = np.zeros(values.shape, np.intp)
    np.cumsum(apart, -1, out=label[:, 1:])
    return label


def _fix_clusters(vectors: Array, values: Array, tol: float | None) -> None:
    n = vectors.shape[1]
    if values.shape[1] < 2:
        return
    eps = max(np.finfo(vectors.dtype).eps, np.finfo(values.dtype).eps)
    label = find_clusters(values, 4 * n * eps if tol is None else tol)
    for size, rows, starts in list_clusters(label):
        columns = starts[:, None] + np.arange(size)
        part = vectors[rows[:, None, None], np.arange(n)[:, None], columns[:, None, :]]
        whole = np.isfinite(part).all((1, 2))
        rows, columns, part = rows[whole], columns[whole], part[whole]
        fixed = _canonical(part)
        vectors[rows[:, None, None], np.arange(n)[:, None], columns[:, None, :]] = fixed


def list_clusters(label: Array) -> list[tuple[int, Array, Array]]:
    """(size, matrices, first columns) of the clusters of two and more, by size."""
    count, m = label.shape
    edge = np.ones((count, m + 1), bool)
    edge[:, 1:m] = label[:, 1:] != label[:, :-1]
    rows, columns = np.nonzero(edge[:, :-1])
    ends = np.nonzero(edge[:, 1:])[1] + 1
    sizes = ends - columns
    return [(int(s), rows[sizes == s], columns[sizes == s]) for s in np.unique(sizes[sizes > 1])]


def _canonical(vectors: Array) -> Array:
    """(count, n, m), m > 1: the canonical basis of each span, by reflections of the columns."""
    re = vectors.real.astype(np.float64)
    im = vectors.imag.astype(np.float64)
    eps = float(np.finfo(vectors.dtype).eps)
    for k in range(vectors.shape[-1] - 1):
        _fix_column(re, im, k, eps)
    if vectors.dtype.kind != "c":
        return re.astype(vectors.dtype)
    out = np.empty_like(vectors)
    out.real, out.imag = re, im
    return out


def _fix_column(re: Array, im: Array, k: int, eps: float) -> None:
    """Reflect columns k, k+1, ... so that the row of largest norm becomes (norm, 0, 0, ...).

    A row that is exactly of that form, and is within rounding of being the pivot, is what an
    earlier application left: nothing is done then, and a second application changes no bit.
    """
    p, q = re[:, :, k:], im[:, :, k:]
    square = _total(p * p + q * q)
    relative = square / np.maximum(square.max(-1, keepdims=True), np.finfo(float).tiny)
    edge = (1 - eps**0.5) ** 2  # moduli within sqrt(eps), as for phases
    done = (p[..., 0] > 0) & (q[..., 0] == 0) & ~(p[..., 1:].any(-1) | q[..., 1:].any(-1))
    done &= relative >= edge - 8 * eps
    sure = _first(relative >= edge + 8 * eps)
    work = np.flatnonzero((_first(done) > sure) & (square.max(-1) > 0))
    pivot = np.argmax(relative[work] >= edge, -1)
    p, q, each = p[work], q[work], np.arange(len(work))
    fixed = _reflect(p, q, (p[each, pivot], q[each, pivot]))
    fixed[0][each, pivot], fixed[1][each, pivot] = 0.0, 0.0
    fixed[0][each, pivot, 0] = np.sqrt(square[work, pivot])
    re[work, :, k:], im[work, :, k:] = fixed


def _reflect(p: Array, q: Array, row: Pair) -> Pair:
    """Multiply rows by the unitary matrix that takes `row` to (its norm, 0, ...)."""
    x, y = row
    norm = np.sqrt(_total(x * x + y * y))
    first = np.sqrt(x[:, 0] * x[:, 0] + y[:, 0] * y[:, 0])
    some = first > 0
    safe = np.where(some, first, 1.0)
    c, s = np.where(some, x[:, 0] / safe, 1.0), np.where(some, y[:, 0] / safe, 0.0)
    u, v = x.copy(), -y  # w = conj(row) + norm conj(phase) e_0
    u[:, 0], v[:, 0] = u[:, 0] + norm * c, v[:, 0] - norm * s
    scale = 2.0 / np.maximum(_total(u * u + v * v), np.finfo(float).tiny)
    u_, v_ = u[:, None, :], v[:, None, :]
    a = _total(p * u_ - q * v_)[..., None] * scale[:, None, None]
    b = _total(p * v_ + q * u_)[..., None] * scale[:, None, None]
    p, q = p - (a * u_ + b * v_), q - (b * u_ - a * v_)
    c, s = c[:, None], s[:, None]
    head = -(p[..., 0] * c + q[..., 0] * s), -(q[..., 0] * c - p[..., 0] * s)
    p[..., 0], q[..., 0] = head
    return p, q


def _total(x: Array) -> Array:
    """Sum over the last axis, first to last (library sums may regroup)."""
    total = x[..., 0].copy()
    for k in range(1, x.shape[-1]):
        total += x[..., k]
    return total


def _first(flag: Array) -> Array:
    """Index of the first true entry of the last axis; its length where there is none."""
    return np.asarray(np.where(flag.any(-1), flag.argmax(-1), flag.shape[-1]))
