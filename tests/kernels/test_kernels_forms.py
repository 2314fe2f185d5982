"""The kinds of arrays that come in, and what is refused."""

from __future__ import annotations

from typing import Any

import kernels_cases as cases
import numpy as np
import pytest
import torch

import kernels

A = cases.Case(cases.random, 4, "complex128").build()


def misaligned(a: Any) -> Any:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    out = raw[1:].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def field_of_record(a: Any) -> Any:
    record = np.zeros(a.shape, [("tag", "u1"), ("a", a.dtype)])
    record["a"] = a
    return record["a"]


def read_only(a: Any) -> Any:
    b = a.copy()
    b.setflags(write=False)
    return b


FORMS = {
    "fortran": np.asfortranarray,
    "big_endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "read_only": read_only,
    "negative_strides": lambda a: a[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "strided": lambda a: np.repeat(np.repeat(a, 2, 1), 3, 2)[:, ::2, ::3],
    "misaligned": misaligned,
    "field": field_of_record,
    "torch": torch.from_numpy,
    "lazily_conjugated": lambda a: torch.from_numpy(a.conj()).conj(),
    "transposed": lambda a: torch.from_numpy(a.conj()).mT,
    "lazily_adjoint": lambda a: torch.from_numpy(a).mH,
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_gives_the_same_bits(form: str) -> None:
    plain = kernels.eigh(A)
    given = FORMS[form](A)
    found = kernels.eigh(given)
    kind = torch.Tensor if isinstance(given, torch.Tensor) else np.ndarray
    assert all(isinstance(x, kind) for x in found)
    assert cases.bits(np.asarray(x) for x in found) == cases.bits(plain)
    again = kernels.verify(given, found.values, found.vectors)
    assert isinstance(again, kind)
    assert np.asarray(again).tobytes() == plain.residual.tobytes()


def test_input_is_left_as_it_was() -> None:
    a = A.copy()
    kernels.eigh(a, hermitian="average")
    assert a.tobytes() == A.tobytes()


def test_batches_that_do_not_flatten() -> None:
    a = np.broadcast_to(A[:, None], (3, 5, 4, 4)).swapaxes(0, 1)
    found = kernels.eigh(a)
    assert found.values.shape == (5, 3, 4)
    assert (found.values == kernels.eigh(A).values).all()
    tensor = torch.from_numpy(A[:1]).expand(1000, 4, 4)
    assert (kernels.eigh(tensor).values == kernels.eigh(tensor[0]).values).all()
    single = kernels.eigh(A[0])
    assert single.status.shape == () and single.values.shape == (4,)


def test_negative_bit_of_torch() -> None:
    imaginary = torch.from_numpy(A).conj().imag  # carries torch's lazy sign
    square = torch.eye(4, dtype=torch.float64) + imaginary @ imaginary.mT
    assert imaginary.is_neg()
    lazy = kernels.eigh(imaginary, hermitian="average")
    assert torch.equal(lazy.values, kernels.eigh(imaginary.clone(), hermitian="average").values)
    assert (kernels.eigh(square).values >= 1 - 1e-12).all()


@pytest.mark.parametrize("dtype", ["float16", "int64", "bool", "longdouble", "U3"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match=r"got shape \(2, 3, 3\) and dtype .*expected .*float32"):
        kernels.eigh(np.zeros((2, 3, 3), dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_other_torch_dtypes_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"\(2, 3, 3\).*float32"):
        kernels.eigh(torch.zeros((2, 3, 3), dtype=dtype))


@pytest.mark.parametrize(
    ("a", "options", "message"),
    [
        (np.eye(3).tolist(), {}, "got builtins.list, expected a plain"),
        (np.ma.masked_array(np.eye(3)), {}, "a mask is not applied"),
        (np.zeros(3), {}, r"got shape \(3,\)"),
        (np.zeros((2, 3)), {}, r"got shape \(2, 3\).*expected \(\.\.\., n, n\)"),
        (np.zeros((5, 0, 0)), {}, "n >= 1"),
        (torch.eye(3).to_sparse(), {}, "dense tensor"),
        (torch.empty((3, 3), device="meta"), {}, "dense tensor"),
        (np.eye(3), {"hermitian": "both"}, "hermitian: got 'both', expected one of lower"),
        (np.eye(3), {"check": True}, "check: got True"),
        (np.eye(3), {"driver": "magma"}, "got 'magma', expected one of auto, lanes, lapack"),
        (np.eye(3), {"threads": 0}, "threads: got 0"),
        (np.eye(3), {"threads": 1.5}, "threads: got 1.5"),
        (np.eye(3), {"hermitian_tol": -1.0}, "hermitian_tol: got -1.0"),
        (np.eye(3), {"hermitian_tol": np.nan}, "hermitian_tol: got nan"),
        (np.eye(3), {"subset": (0, 4)}, r"subset: got \(0, 4\).*n = 3"),
        (np.eye(3), {"subset": (2, 2)}, "subset"),
        (np.eye(3), {"subset": (-4, 3)}, "subset"),
        (np.eye(3), {"subset": (0.0, 2)}, "subset"),
        (np.eye(3), {"subset": 2}, "subset"),
        (np.eye(3), {"subset": (0, 1, 2)}, "subset"),
    ],
)
def test_misuse(a: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.eigh(a, **options)


def test_choose_driver() -> None:
    for dtype in (*cases.DTYPES, np.dtype("f4"), torch.complex64):
        assert kernels.choose_driver(3, dtype, "cpu", True) == "lanes"
    assert kernels.choose_driver(500, "float64", torch.device("cuda"), False) == "lapack"
    for wrong in [(0, "float64", "cpu"), (3, "float16", "cpu"), (3, "float64", "abacus"),
                  (3, "nonsense", "cpu"), (3, torch.int32, "cpu")]:  # fmt: skip
        with pytest.raises(ValueError, match="got"):
            kernels.choose_driver(*wrong, True)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_drop_in(uplo: Any) -> None:
    a = torch.from_numpy(A)
    found = kernels.linalg.eigh(a, uplo)
    values, vectors = found
    assert torch.equal(found.eigenvalues, values)
    torch.testing.assert_close(values, torch.linalg.eigh(a, uplo).eigenvalues)
    torch.testing.assert_close(vectors @ torch.diag_embed(values + 0j) @ vectors.mH, a)
    bad = a.clone()
    bad[1] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(1,\)\): nonfinite; 1 of 3"):
        kernels.linalg.eigh(bad, uplo)
    with pytest.raises(ValueError, match="UPLO"):
        kernels.linalg.eigh(a, "X")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"torch\.Tensor"):
        kernels.linalg.eigh(A)  # type: ignore[arg-type]
