"""InfluxDB 1 and VictoriaMetrics for the tests: in a temporary folder, on a port of their own.

Debian's InfluxDB 1.6 knows neither Flux nor the end points of version 2. InfluxDB 1.8 knows both:
a module of Go, which the go command builds.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.python.integration.daemons import Daemon, free_port, program_or_skip
from tests.python.integration.partition import Network

__all__ = ["InfluxServer", "flux_server", "influx_server", "victoria_server"]

_FLUX_MODULE = "github.com/influxdata/influxdb/cmd/influxd@v1.8.3"

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
  flux-enabled = {flux}
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
NO_FIELDS: Mapping[str, str] = {}


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

    def _get(
        self, target: str, data: bytes | None = None, head: Mapping[str, str] = NO_FIELDS
    ) -> bytes:
        address = f"http://{self._host}:{self.port}{target}"
        request = urllib.request.Request(address, data, dict(head))
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

    def flux(self, text: str) -> list[dict[str, str]]:
        """The rows of a query in Flux, as texts, table by table."""
        head = {"Content-Type": "application/vnd.flux", "Accept": "application/csv"}
        body = self._get("/api/v2/query?org=any", text.encode(), head)
        found: list[dict[str, str]] = []
        for table in body.decode().replace("\r\n", "\n").split("\n\n"):
            lines = [line for line in table.split("\n") if line and not line.startswith("#")]
            found += csv.DictReader(lines)
        assert not any(row.get("error") for row in found), found
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
    """InfluxDB 1.6, started; in a network of its own if given."""
    with _started(program_or_skip("influxd", "influxdb"), auth=auth, where=where) as server:
        yield server


@contextmanager
def flux_server(*, auth: bool = False) -> Iterator[InfluxServer]:
    """InfluxDB 1.8 with Flux and the end points of version 2, started."""
    given = os.environ.get("INFLUXD_WITH_FLUX")
    program = Path(given) if given else Path.home() / "go" / "bin" / "influxd"
    if not program.exists():
        pytest.skip(
            f"no InfluxDB 1.8 on this machine (go install {_FLUX_MODULE}, or set INFLUXD_WITH_FLUX)"
        )
    with _started(str(program), auth=auth, flux=True) as server:
        yield server


@contextmanager
def _started(
    program: str, *, auth: bool = False, flux: bool = False, where: Network | None = None
) -> Iterator[InfluxServer]:
    with tempfile.TemporaryDirectory(prefix="penstock-influx-") as name:
        folder, port = Path(name), free_port()
        host = "127.0.0.1" if where is None else where.address
        config = folder / "influxdb.conf"
        config.write_text(
            _CONFIG.format(
                folder=folder,
                host=host,
                port=port,
                rpc=free_port(),
                auth=str(auth).lower(),
                flux=str(flux).lower(),
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
