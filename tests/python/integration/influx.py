"""InfluxDB 1 and VictoriaMetrics for the tests: in a temporary folder, on a port of their own."""

from __future__ import annotations

import base64
import json
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.python.integration.daemons import Daemon, free_port, program_or_skip
from tests.python.integration.partition import Network

__all__ = ["InfluxServer", "influx_server", "victoria_server"]

_CONFIG = """\
reporting-enabled = false
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
[http]
  bind-address = "{host}:{port}"
  auth-enabled = {auth}
  log-enabled = false
[monitor]
  store-enabled = false
[subscriber]
  enabled = false
[ifql]
  enabled = false
[continuous_queries]
  enabled = false
"""
_DATABASE = "lab"


class InfluxServer(Daemon):
    """A server with a database ``lab``."""

    def __init__(
        self, command: list[str], folder: Path, port: int, ping: str, host: str = "127.0.0.1"
    ) -> None:
        super().__init__(command, folder / "log", lambda: self._get(ping) is not None)
        self.port = port
        self._host = host
        self.login: tuple[str, str] | None = None

    def url(self, database: str = _DATABASE, options: str = "") -> str:
        """The address for a sink."""
        return f"influx://{self._host}:{self.port}/{database}{options}"

    def _get(self, target: str, data: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"http://{self._host}:{self.port}{target}", data)
        if self.login is not None:
            pair = base64.b64encode(":".join(self.login).encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def query(self, text: str) -> list[dict[str, Any]]:
        """The rows of an InfluxQL query, in which ``time`` counts nanoseconds."""
        form = {"q": text, "db": _DATABASE, "epoch": "ns"}
        answer = json.loads(self._get("/query", urllib.parse.urlencode(form).encode()))
        found: list[dict[str, Any]] = []
        for result in answer["results"]:
            assert "error" not in result, result
            for series in result.get("series", ()):
                tags = series.get("tags", {})
                for values in series["values"]:
                    found.append({**tags, **dict(zip(series["columns"], values, strict=True))})
        return found

    def write(self, lines: str) -> None:
        """Store lines as somebody else does."""
        self._get(f"/write?db={_DATABASE}", lines.encode())

    def empty(self) -> None:
        """Make the database as new."""
        self.query(f"DROP DATABASE {_DATABASE}")
        self.query(f"CREATE DATABASE {_DATABASE}")

    def exported(self) -> list[dict[str, Any]]:
        """Every series of VictoriaMetrics, with ``values`` and ``timestamps`` in milliseconds."""
        match = urllib.parse.urlencode({"match[]": '{__name__!=""}'})
        self._get("/internal/force_flush")
        body = self._get(f"/api/v1/export?{match}")
        return [json.loads(line) for line in body.splitlines()]


@contextmanager
def influx_server(*, auth: bool = False, where: Network | None = None) -> Iterator[InfluxServer]:
    """InfluxDB 1, started; in a network of its own if given."""
    program = program_or_skip("influxd", "influxdb")
    with tempfile.TemporaryDirectory(prefix="penstock-influx-") as name:
        folder, port = Path(name), free_port()
        host = "127.0.0.1" if where is None else where.address
        config = folder / "influxdb.conf"
        config.write_text(
            _CONFIG.format(
                folder=folder, host=host, port=port, rpc=free_port(), auth=str(auth).lower()
            )
        )
        command = [] if where is None else where.command
        command += [program, "run", "-config", str(config)]
        server = InfluxServer(command, folder, port, "/ping", host)
        server.start()
        try:
            if not auth:
                server.empty()
            yield server
        finally:
            server.kill()


@contextmanager
def victoria_server(*options: str) -> Iterator[InfluxServer]:
    """VictoriaMetrics, started."""
    program = program_or_skip("victoria-metrics", "victoria-metrics")
    with tempfile.TemporaryDirectory(prefix="penstock-victoria-") as name:
        folder, port = Path(name), free_port()
        command = [
            program,
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={folder / 'data'}",
            "-retentionPeriod=100y",
            *options,
        ]
        server = InfluxServer(command, folder, port, "/health")
        server.start()
        try:
            yield server
        finally:
            server.kill()
