"""Prometheus for the tests: in a temporary folder, on a port of its own."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.python.integration.daemons import Daemon, free_port, program_or_skip

__all__ = ["Prometheus", "prometheus"]

_PATIENCE_S = 60.0


class Prometheus(Daemon):
    """A server that scrapes once a second."""

    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        super().__init__(command, folder / "log", lambda: self._get("/-/ready") is not None)
        self._port = port

    def _get(self, target: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{target}", timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def query(self, text: str) -> list[tuple[dict[str, str], float]]:
        """The labels and the value of each series that a query finds now."""
        target = f"/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        answer = json.loads(self._get(target))
        assert answer["status"] == "success", answer
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def wait_for(self, text: str) -> list[tuple[dict[str, str], float]]:
        """What a query finds, when it finds something."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := self.query(text)):
            assert time.monotonic() < deadline, self.targets()
            time.sleep(0.1)
        return found

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped, with the error of the last time."""
        answer = json.loads(self._get("/api/v1/targets"))
        found: list[dict[str, Any]] = answer["data"]["activeTargets"]
        return found


@contextmanager
def prometheus(jobs: Mapping[str, str]) -> Iterator[Prometheus]:
    """A server that scrapes ``HOST:PORT`` for each name of a job, started."""
    program = program_or_skip("prometheus", "prometheus")
    with tempfile.TemporaryDirectory(prefix="penstock-prometheus-") as name:
        folder, port = Path(name), free_port()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [address]}]}
                for job, address in jobs.items()
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        command = [
            program,
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        server = Prometheus(command, folder, port)
        server.start()
        try:
            yield server
        finally:
            server.kill()
