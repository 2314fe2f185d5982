"""moto_server as a child process, buckets on it, and a proxy that fails by a seeded draw."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY_ID, SECRET = "AKIAVERYSECRETID0001", "s3cret/Never+Shown/0123456789abcdef"
QUICK = {"max_retries": 2, "backoff": {"init_backoff": 0.01, "max_backoff": 0.05}}
"""Retries for tests of a store that is lost for good."""
DENIED = (
    '<?xml version="1.0"?><Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id '
    f"you provided does not exist in our records.</Message><AWSAccessKeyId>{KEY_ID}"
    "</AWSAccessKeyId></Error>"
)
SLOW_DOWN = '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Slow down.</Message></Error>'


class Moto:
    """`moto_server` on a free port."""

    def __init__(self) -> None:
        self.port = find_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.child = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not can_connect(self.port):
            assert self.child.poll() is None and time.monotonic() < deadline, "moto did not start"
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server."""
        self.child.terminate()
        self.child.wait(10)


def find_port() -> int:
    """Find a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_connect(port: int) -> bool:
    """Whether something listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@dataclass
class Bucket:
    """A bucket on a server.

    Attributes
    ----------
    name, endpoint : str
        The bucket and the server.
    """

    name: str
    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        """Storage options, credentials among them."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET,
            "virtual_hosted_style_request": "false",
        }

    @property
    def store(self) -> Any:
        """The bucket as obstore opens it."""
        from obstore.store import S3Store  # the tests skip where it is not installed

        return S3Store(self.name, config=self.options, client_options={"allow_http": True})

    def url(self, key: str) -> str:
        """URL of a key."""
        return f"s3://{self.name}/{key}"

    def upload(self, folder: Path, key: str) -> str:
        """Copy a folder to a key; return its URL."""
        for file in folder.rglob("*"):
            if file.is_file():
                target = f"{key}/{file.relative_to(folder).as_posix()}"
                self.put(target, file.read_bytes())
        return self.url(key)

    def list(self, key: str = "") -> dict[str, int]:
        """Every object below a key, with its size."""
        found = self.store.list(prefix=key or None).collect()
        return {item["path"]: item["size"] for item in found}

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        self.store.put(key, content)

    def remove(self, key: str) -> None:
        """Remove an object."""
        self.store.delete(key)

    def read(self, key: str) -> bytes:
        """Content of an object."""
        return bytes(self.store.get(key).bytes())

    def words(self, group: str, endpoint: str | None = None) -> list[str]:
        """The options as they are typed."""
        options = {**self.options, "endpoint": endpoint or self.endpoint}
        return [f"{group}.storage_options.{k}={v}" for k, v in options.items()]


class Troubled:
    """A proxy that answers for a server, or breaks off, or hands on; one request a connection.

    Attributes
    ----------
    rates : dict
        Of `slow` (503), `reset` and `lag` (0.3 s); drawn anew for each request.
    denied, dead : bool
        Refuse every request with 403; break every connection off.
    """

    def __init__(self, upstream: int) -> None:
        self.rates: dict[str, float] = {}
        self.counts = dict.fromkeys(("ok", "slow", "reset", "lag"), 0)
        self.denied = self.dead = False
        self._upstream, self._draw = upstream, random.Random(0)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(30)
            head, body = read_message(client)
            fate = "reset" if self.dead else self._choose()
            self.counts[fate] += 1
            if fate == "reset":
                # a linger of no time turns the close into a reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif self.denied:
                client.sendall(answer("403 Forbidden", DENIED))
            elif fate == "slow":
                client.sendall(answer("503 Slow Down", SLOW_DOWN))
            else:
                time.sleep(0.3 if fate == "lag" else 0)
                self._hand_on(client, head, body)

    def _choose(self) -> str:
        drawn = self._draw.random()
        for fate, rate in self.rates.items():
            if drawn < rate:
                return fate
            drawn -= rate
        return "ok"

    def _hand_on(self, client: socket.socket, head: bytes, body: bytes) -> None:
        lines = [x for x in head.split(b"\r\n") if not x.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", self._upstream), 30) as server:
            server.sendall(b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + body)
            reply = b""
            while part := server.recv(1 << 16):
                reply += part
        head, _, rest = reply.partition(b"\r\n\r\n")
        lines = [x for x in head.split(b"\r\n") if not x.lower().startswith(b"connection:")]
        client.sendall(b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + rest)


def read_message(client: socket.socket) -> tuple[bytes, bytes]:
    """Read one request: its head without the empty line, and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(1 << 16)
        if not part:
            raise ConnectionError("closed")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [x for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += client.recv(1 << 16)
    return head, body


def answer(status: str, text: str) -> bytes:
    """Compose a reply."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()
