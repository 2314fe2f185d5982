"""The same matrices from a folder, a bucket, a web server, an archive, a snapshot, and fsspec."""

from __future__ import annotations

import functools
import http.server
import pickle
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from storage_cases import KEY_ID, QUICK, SECRET, Bucket, Troubled

from pipeline.errors import Misuse, ReadError
from pipeline.plan import Block
from pipeline.schema.source import SourceConfig
from pipeline.sources import Source, open_source


def open_at(path: str | Path, **keys: Any) -> Source:
    return open_source(SourceConfig(path=str(path), **keys))


def read_all(source: Source) -> np.ndarray[Any, Any]:
    values, missing = source.read(Block(0, (0,) * len(source.shape), source.shape))
    assert not missing.any()
    return values


def assert_same(source: Source, stack: Path) -> None:
    """Values, labels and identity are those of the folder, here and where it was sent."""
    local = open_at(stack)
    for one in (source, pickle.loads(pickle.dumps(source))):
        assert np.array_equal(read_all(one), read_all(local))
    assert source.coords.identical(local.coords)
    assert source.attrs == local.attrs
    assert source.identity() == local.identity()


def write_sharded(path: Path, zarr_format: int = 3) -> Path:
    """Shards of four chunks, one of them left out."""
    array = zarr.create_array(
        path, shape=(8, 3, 3), dtype="f8", chunks=(1, 3, 3), shards=(4, 3, 3), fill_value=0
    )
    for i in [0, 1, 3, 4, 5, 6, 7]:
        array[i] = np.eye(3) * (i + 1)
    return path


def test_s3(bucket: Bucket, stack: Path) -> None:
    url = bucket.upload(stack, "deep/in.zarr")
    assert_same(open_at(url, storage_options=bucket.options), stack)
    array = open_at(f"{url}/H", storage_options=bucket.options)
    assert array.dims == ("k0", "k1") and "k0" in array.coords


def test_credentials_from_the_environment(
    bucket: Bucket, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = bucket.upload(stack, "in.zarr")
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert open_at(url).shape == (12, 10)


def test_v2_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    zarr.create_array(
        tmp_path / "v2", data=np.eye(3) * np.ones((4, 1, 1)), chunks=(2, 3, 3), zarr_format=2
    )
    url = bucket.upload(tmp_path / "v2", "v2")
    assert np.array_equal(read_all(open_at(url, storage_options=bucket.options))[3], np.eye(3))


def test_absent_chunks_stay_absent(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.upload(write_sharded(tmp_path / "s"), "s")
    with pytest.raises(Misuse, match=r"c/0/0/0 \(inner chunk \(2, 0, 0\)"):
        open_at(url, storage_options=bucket.options)
    source = open_at(url, storage_options=bucket.options, missing="flag")
    assert source.read(Block(0, (0,), (8,)))[1].tolist() == [i == 2 for i in range(8)]


def test_a_chunk_that_disappears_is_no_missing_one(bucket: Bucket, stack: Path) -> None:
    url = bucket.upload(stack, "in.zarr")
    source = open_at(url, storage_options=bucket.options, missing="fill")
    bucket.remove("in.zarr/H/c/1/0/0/0")
    with pytest.raises(ReadError, match=r"block 7 .*c/1/0/0/0 was there when the run was planned"):
        source.read(Block(7, (0, 0), (12, 10)))


def test_a_chunk_cut_short_is_damage(bucket: Bucket, tmp_path: Path) -> None:
    """Blosc's decoder would read on beyond the end of what was fetched."""
    values = np.random.default_rng(0).standard_normal((4, 3, 3))
    blosc = zarr.codecs.BloscCodec()
    zarr.create_array(tmp_path / "b", data=values, chunks=(2, 3, 3), compressors=blosc)
    url = bucket.upload(tmp_path / "b", "b")
    bucket.put("b/c/1/0/0", bucket.read("b/c/1/0/0")[:-9])
    source = open_at(url, storage_options=bucket.options)
    assert source.read(Block(0, (0,), (2,)))[0].shape == (2, 3, 3)
    with pytest.raises(ReadError, match=r"chunk c/1/0/0 of .*says that it has"):
        source.read(Block(1, (2,), (4,)))


def test_errors_are_tried_again(bucket: Bucket, stack: Path, troubled: Troubled) -> None:
    url = bucket.upload(stack, "in.zarr")
    troubled.rates = {"slow": 0.1, "reset": 0.1, "lag": 0.05}
    source = open_at(url, storage_options={**bucket.options, "endpoint": troubled.url})
    assert_same(source, stack)
    assert troubled.counts["slow"] and troubled.counts["reset"]


def test_a_lost_store_is_no_missing_data(bucket: Bucket, stack: Path, troubled: Troubled) -> None:
    url = bucket.upload(stack, "in.zarr")
    options = {**bucket.options, "endpoint": troubled.url, "retry_config": QUICK}
    source = open_at(url, storage_options=options, missing="fill")
    troubled.rates = {"slow": 1.0}
    with pytest.raises(ReadError, match="SlowDown"):
        source.read(Block(0, (0, 0), (3, 5)))
    troubled.dead = True
    with pytest.raises(ReadError, match="after 2 retries"):
        source.read(Block(0, (0, 0), (3, 5)))
    troubled.rates, troubled.dead = {}, False
    assert source.read(Block(0, (0, 0), (3, 5)))[0].shape == (3, 5, 6, 6)


def test_refusals_say_what_the_store_says(bucket: Bucket, stack: Path, troubled: Troubled) -> None:
    url = bucket.upload(stack, "in.zarr")
    with pytest.raises(Misuse, match="NoSuchBucket"):
        open_at("s3://nobody-s-bucket/in.zarr", storage_options=bucket.options)
    with pytest.raises(Misuse, match=r"holds no Zarr store.*in\.zarr"):
        open_at(bucket.url("im.zarr"), storage_options=bucket.options)
    with pytest.raises(Misuse, match=r"'colour'.*endpoint, region"):
        open_at(url, storage_options={**bucket.options, "colour": "blue"})
    troubled.denied = True
    with pytest.raises(Misuse, match=r"403.*storage_options") as caught:
        open_at(url, storage_options={**bucket.options, "endpoint": troubled.url})
    assert KEY_ID not in str(caught.value) and "InvalidAccessKeyId" in str(caught.value)


def test_credentials_in_a_url_are_refused() -> None:
    for url in ("https://me:passw0rd@host/a.zarr", "https://host/a.zarr?sig=passw0rd"):
        with pytest.raises(Misuse, match="credentials or a query") as caught:
            open_at(url)
        assert "passw0rd" not in str(caught.value)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A plain web server for the test's folder."""
    pytest.importorskip("obstore", reason="web servers are read by obstore: pip install obstore")
    handler = functools.partial(Silent, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_http(web: str, stack: Path, tmp_path: Path) -> None:
    (tmp_path / "in.zarr").symlink_to(stack)
    with pytest.raises(Misuse, match="consolidated"):
        open_at(f"{web}/in.zarr")
    array = open_at(f"{web}/in.zarr/H")
    assert np.array_equal(read_all(array), read_all(open_at(stack)))


def test_http_with_consolidated_metadata(web: str, tmp_path: Path, stack: Path) -> None:
    import shutil

    shutil.copytree(stack, tmp_path / "in.zarr")
    with pytest.warns(UserWarning, match="Consolidated"):
        zarr.consolidate_metadata(tmp_path / "in.zarr")
    assert_same(open_at(f"{web}/in.zarr"), stack)
    assert_same(open_at(f"{web}/in.zarr/H"), stack)


def test_http_tells_absent_chunks(web: str, tmp_path: Path) -> None:
    write_sharded(tmp_path / "s")
    (tmp_path / "s" / "c" / "1" / "0" / "0").unlink()
    source = open_at(f"{web}/s", missing="flag")
    absent = source.read(Block(0, (0,), (8,)))[1]
    assert absent.tolist() == [i in (2, 4, 5, 6, 7) for i in range(8)]


def test_zip(tmp_path: Path, stack: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.zarr.zip", "w") as archive:
        for file in stack.rglob("*"):
            archive.write(file, file.relative_to(stack))
    assert_same(open_at(tmp_path / "in.zarr.zip"), stack)


def test_zip_with_absent_chunks(tmp_path: Path) -> None:
    folder = write_sharded(tmp_path / "s")
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    source = open_at(tmp_path / "s.zip", missing="flag")
    assert source.read(Block(0, (0,), (8,)))[1].tolist() == [i == 2 for i in range(8)]


def test_a_damaged_zip(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(Misuse, match="damaged zip"):
        open_at(tmp_path / "a.zip")


def test_fsspec(stack: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="pip install fsspec")

    memory = fsspec.filesystem("memory")
    memory.put(str(stack), "/in.zarr", recursive=True)
    try:
        source = open_at("memory://in.zarr")
        assert np.array_equal(read_all(source), read_all(open_at(stack)))
        assert source.identity() == open_at(stack).identity()
    finally:
        memory.rm("/in.zarr", recursive=True)


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(Misuse, match="neither obstore nor fsspec"):
        open_at("floppy://a/in.zarr")


@pytest.fixture
def repository(tmp_path: Path, stack: Path) -> Path:
    """An icechunk repository with two commits on `main`; the first one bears a tag."""
    icechunk = pytest.importorskip("icechunk", reason="pip install eigenstream[icechunk]")
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    repo = icechunk.Repository.create(storage)
    source = zarr.open_group(stack, mode="r")
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, attributes=dict(source.attrs))
    for name, array in source.arrays():
        metadata = array.metadata
        group.create_array(
            name,
            data=array[...],
            chunks=array.chunks,
            dimension_names=metadata.dimension_names,
            attributes=dict(array.attrs),
        )
    repo.create_tag("first", snapshot_id=session.commit("one"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="H")[0, 0] = np.eye(6)
    session.commit("two")
    return tmp_path / "repo"


def test_icechunk(repository: Path, stack: Path) -> None:
    assert_same_values = lambda s: np.array_equal(read_all(s), read_all(open_at(stack)))  # noqa: E731
    first = open_at(repository, storage_options={"tag": "first"})
    assert assert_same_values(first)
    assert first.coords.identical(open_at(stack).coords)
    newest = open_at(repository)
    assert np.array_equal(read_all(newest)[0, 0], np.eye(6))
    assert assert_same_values(pickle.loads(pickle.dumps(first)))


def test_a_snapshot_stays_what_it_was(repository: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    source = open_at(repository)
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(repository)))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="H")[0, 0] = 2 * np.eye(6)
    session.commit("three")
    sent = pickle.loads(pickle.dumps(source))
    assert np.array_equal(read_all(sent)[0, 0], np.eye(6))


def test_icechunk_refusals(repository: Path) -> None:
    with pytest.raises(Misuse, match=r"branch=nope.*storage_options\.branch"):
        open_at(repository, storage_options={"branch": "nope"})
    with pytest.raises(Misuse, match="expected one of them"):
        open_at(repository, storage_options={"branch": "main", "tag": "first"})


def test_icechunk_in_a_bucket(bucket: Bucket) -> None:
    icechunk = pytest.importorskip("icechunk", reason="pip install eigenstream[icechunk]")
    storage = icechunk.s3_storage(
        bucket=bucket.name,
        prefix="deep/repo",
        endpoint_url=bucket.endpoint,
        region="us-east-1",
        access_key_id=KEY_ID,
        secret_access_key=SECRET,
        allow_http=True,
        force_path_style=True,
    )
    session = icechunk.Repository.create(storage).writable_session("main")
    zarr.create_array(session.store, name="H", data=np.stack([np.eye(3)] * 4), chunks=(2, 3, 3))
    session.commit("one")
    source = open_at(bucket.url("deep/repo"), storage_options=bucket.options)
    assert np.array_equal(read_all(source)[3], np.eye(3))


@pytest.mark.parametrize(
    ("package", "extra", "path"),
    [
        ("obstore", "cloud", "s3://a-bucket-of-nobody/H.zarr"),
        ("fsspec", "cloud", "memory://nothing-here.zarr"),
        ("icechunk", "icechunk", "repo"),
    ],
)
def test_what_is_not_installed_is_named(
    package: str, extra: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("refs", "snapshots", "manifests"):
        (tmp_path / "repo" / name).mkdir(parents=True)
    for module in [package, *(m for m in sys.modules if m.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match=rf"{package}.*pip install 'eigenstream\[{extra}\]'"):
        open_at(path)
