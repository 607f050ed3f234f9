"""QuestDB for the tests: its jar from Maven, in a temporary folder, on a port of its own."""

from __future__ import annotations

import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.python.integration.daemons import Daemon, free_port, program_or_skip

__all__ = ["QuestServer", "quest_server"]

_CONFIG = """\
http.bind.to=127.0.0.1:{port}
http.min.enabled=false
pg.enabled=false
line.tcp.enabled=false
line.udp.enabled=false
telemetry.enabled=false
shared.worker.count=1
"""


class QuestServer(Daemon):
    """A server; ``url`` is its address for a sink."""

    def __init__(self, command: list[str], log: Path, port: int) -> None:
        super().__init__(command, log, self._pings)
        self.port = port

    @property
    def url(self) -> str:
        return f"influx://127.0.0.1:{self.port}/any"

    def _get(self, target: str) -> bytes:
        address = f"http://127.0.0.1:{self.port}{target}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error

    def _pings(self) -> bool:
        self._get("/ping")
        return True

    def query(self, text: str) -> list[list[Any]]:
        """The rows of an SQL query; none for another statement."""
        answer = json.loads(self._get(f"/exec?{urllib.parse.urlencode({'query': text})}"))
        rows: list[list[Any]] = answer.get("dataset", [])
        return rows


def _jar() -> Path:
    given = os.environ.get("QUESTDB_JAR")
    found = [Path(given)] if given else []
    found += sorted(Path.home().glob(".m2/repository/org/questdb/questdb/*/questdb-*.jar"))
    if not found:
        pytest.skip(
            "no QuestDB on this machine (Maven: mvn dependency:get -Dtransitive=false "
            "-Dartifact=org.questdb:questdb:9.3.4, or set QUESTDB_JAR)"
        )
    return found[-1]


@contextmanager
def quest_server() -> Iterator[QuestServer]:
    """QuestDB, started."""
    java, jar = program_or_skip("java", "default-jre-headless"), _jar()
    with tempfile.TemporaryDirectory(prefix="penstock-questdb-") as name:
        folder, port = Path(name), free_port()
        (folder / "root" / "conf").mkdir(parents=True)
        (folder / "root" / "conf" / "server.conf").write_text(_CONFIG.format(port=port))
        command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-p", str(jar)]
        command += ["-m", "io.questdb/io.questdb.ServerMain", "-d", str(folder / "root"), "-n"]
        server = QuestServer(command, folder / "log", port)
        server.start()
        try:
            yield server
        finally:
            server.kill()
