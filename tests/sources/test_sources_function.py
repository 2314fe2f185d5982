"""Functions of the user's: against closed forms; in other processes; functions that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from computed_cases import check_bits, refuse, solve
from source_cases import read_all

import pipeline
from pipeline.choices import Kind
from pipeline.config import compose
from pipeline.errors import Misuse
from pipeline.run import run
from pipeline.schema.source import SourceConfig
from pipeline.sources import open_source

ROOT = Path(__file__).resolve().parents[2]
SSH = '''\
"""A chain."""
import numpy as np


def chain(k, t=1.0, d=0.2):
    """Su-Schrieffer-Heeger chain."""
    h = np.zeros((len(k), 2, 2), complex)
    h[:, 0, 1] = t + d + (t - d) * np.exp(-2j * np.pi * k[:, 0])
    h[:, 1, 0] = h[:, 0, 1].conj()
    return h
'''
WRONG = """\
import numpy as np


def flat(k):
    return np.zeros((len(k), 2))


def single(k):
    return np.eye(2)


def fails(k):
    raise RuntimeError("no phonons today")


def mixes(k):
    return np.eye(2) * np.cumsum(k[:, 0] + 1)[:, None, None]


def words(k):
    return np.full((len(k), 1, 1), "x")


number = 3
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ssh_chain.py").write_text(SSH)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ssh_chain.py"


def open_at(file: Path, name: str = "chain", **keys: Any) -> Any:
    keys = {"mesh": [40]} | keys
    function = f"{file}:{name}"
    return open_source(SourceConfig(path=str(file), kind=Kind.function, function=function, **keys))


def test_a_chain(ssh: Path) -> None:
    source = open_at(ssh, parameters={"t": 1.5})
    assert (source.dims, source.shape, source.n, source.dtype.name) == (
        ("k1",),
        (40,),
        2,
        "complex128",
    )
    k = source.coords["k1"].to_numpy()
    exact = np.sqrt(1.7**2 + 1.3**2 + 2 * 1.7 * 1.3 * np.cos(2 * np.pi * k))
    np.testing.assert_allclose(solve(read_all(source)), np.stack([-exact, exact], -1), atol=1e-14)
    assert source.attrs["long_name"] == "Su-Schrieffer-Heeger chain"


def test_bits_depend_on_the_point_alone(ssh: Path) -> None:
    check_bits(open_at(ssh, mesh=[300]))
    check_bits(open_at(ROOT / "data" / "graphene.py", "hamiltonian", mesh=[13, 21]))


def test_large_matrices_come_in_small_tiles(tmp_path: Path) -> None:
    """So that a tile stays within its bytes; and the rows of `k` are what the tile has."""
    text = "import numpy as np\n\n\ndef big(k):\n    assert len(k) in (8, 16)\n"
    text += "    return np.eye(400) * k[:, 0, None, None]\n"
    (tmp_path / "big_matrices.py").write_text(text)
    source = open_at(tmp_path / "big_matrices.py", "big", mesh=[50])
    assert source.n == 400 and source.chunk_bytes < 2**26 and source.dtype.name == "float64"
    np.testing.assert_array_equal(read_all(source)[:, 3, 3], np.arange(50) / 50)


@pytest.mark.parametrize("function", ["ssh_chain:chain", "ssh_chain.py:chain"])
def test_in_other_processes(ssh: Path, function: str) -> None:
    """The file is found from the working directory, as the shell would, and by the workers."""
    tree = pipeline.run(
        ["source=function", f"source.function={function}", "source.mesh=[5000]", "source.units=eV"],
        sink={"path": "out.zarr"},
        cluster={"kind": "local", "workers": 2} if ".py" in function else "serial",
        plan={"block_bytes": 100_000},
    )
    assert (tree.status == 0).all() and tree.eigenvalues.attrs["units"] == "eV"
    assert float(tree.eigenvalues.min()) == pytest.approx(-2)
    assert not pipeline.verify("out.zarr", sample=20).failed
    ssh.write_text(SSH.replace("1.0", "1.1"))
    with pytest.raises(Misuse, match=r"input\.source"):
        pipeline.run(
            ["source=function", f"source.function={function}", "source.mesh=[5000]"],
            sink={"path": "out.zarr"},
            source={"units": "eV"},
        )


def test_identity(ssh: Path, tmp_path: Path) -> None:
    first = open_at(ssh).identity()
    (tmp_path / "moved").mkdir()
    moved = ssh.rename(tmp_path / "moved" / "ssh_chain.py")
    assert open_at(moved).identity() == first
    seen = [first]
    for keys in (
        {"parameters": {"d": 0.3}},
        {"mesh": [41]},
        {"shift": [0.5]},
        {"lattice": [[2.0]]},
    ):
        found = open_at(moved, **keys).identity()
        assert found not in seen
        seen.append(found)


def test_gap_of_haldanes_model(tmp_path: Path) -> None:
    """2 * 3 sqrt(3) t2 at K and K'; the experiment runs as it is shipped."""
    tree = pipeline.run(
        ["+experiment=graphene", "cluster=serial"], sink={"path": str(tmp_path / "out.zarr")}
    )
    assert float(tree.spectrum.gap) == pytest.approx(6 * np.sqrt(3) * 0.1, abs=1e-12)
    path = "G 0 0 - K 1/3 2/3 - M 1/2 1/2"
    source = open_at(ROOT / "data" / "graphene.py", "hamiltonian", mesh=None, kpath=path, points=30)
    values = solve(read_all(source))
    np.testing.assert_allclose(values[30], [-0.3 * np.sqrt(3), 0.3 * np.sqrt(3)], atol=1e-12)
    assert source.coords["label"].to_numpy()[30] == "K"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flat", ["(8, 2)", "(8, n, n)"]),
        ("single", ["(2, 2)", "(8, n, n)"]),
        ("fails", ["RuntimeError", "no phonons today", "(8, 1)"]),
        ("mixes", ["other points"]),
        ("words", ["expected numbers"]),
        ("number", ["no function 'number'"]),
        ("nothing", ["no function 'nothing'"]),
    ],
)
def test_wrong_functions(tmp_path: Path, name: str, words: list[str]) -> None:
    file = tmp_path / "wrong_functions.py"
    file.write_text(WRONG)
    keys: dict[str, Any] = {"kind": Kind.function, "mesh": [40]}
    refuse(file, *words, function=f"{file}:{name}", **keys)


def test_a_function_that_fails_later(tmp_path: Path) -> None:
    """It costs the blocks that it fails in; the others are solved."""
    text = "import numpy as np\n\n\ndef late(k):\n    if (k[:, 0] > 0.7).any():\n"
    text += "        raise RuntimeError('no further')\n"
    text += "    return np.tile(np.eye(16), (len(k), 1, 1))\n"
    (tmp_path / "late_failure.py").write_text(text)
    overrides = ["source=function", f"source.function={tmp_path}/late_failure.py:late"]
    overrides += ["source.mesh=[12,512]", "cluster=serial", "plan.block_bytes=4096"]
    outcome = run(compose([*overrides, f"sink.path={tmp_path}/out.zarr"]))
    assert outcome.code == 1
    status = pipeline.open(tmp_path / "out.zarr").status.to_numpy()
    assert (status[:9] == 0).all() and (status[9:] == 7).all()
    assert "no further" in (tmp_path / "out.zarr.log").read_text()


def test_refusals(ssh: Path, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"kind": Kind.function}
    refuse(ssh, "source.mesh", function=f"{ssh}:chain", **keys)
    refuse(ssh, "MODULE:NAME", function="chain", mesh=[3], **keys)
    refuse(ssh, "MODULE:NAME", mesh=[3], **keys)
    refuse(
        ssh,
        "fails",
        "unexpected",
        "'u': 1",
        function=f"{ssh}:chain",
        mesh=[3],
        parameters={"u": 1},
        **keys,
    )
    refuse(tmp_path / "no.py", "no file", function="no:f", mesh=[3], **keys)
    refuse(ssh, "2 vectors", function=f"{ssh}:chain", mesh=[3], lattice=[[1, 0], [0, 1]], **keys)
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    refuse(
        tmp_path / "bad.py",
        "cannot be loaded",
        "nothing_of_this_name",
        function="bad:f",
        mesh=[3],
        **keys,
    )
    with pytest.raises(Misuse, match=r"source\.function"):
        compose(["source=function"])
    with pytest.raises(Misuse, match=r"(?s)source\.mesh.*source=wannier90"):
        compose(["source.path=/x.zarr", "source.mesh=[2,2,2]"])
