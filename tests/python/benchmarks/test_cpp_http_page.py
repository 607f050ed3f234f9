"""The page of the C++ HTTP servers: its commands, and wrk as a load."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.processes import Failed, run
from benchmarks.pages.cpp_http import HELLO, LIBRARIES, LOADS, load_command, server_command

CORE = min(os.sched_getaffinity(0))
NATIVE = Path("/programs")


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Length", str(len(HELLO)))
        self.end_headers()
        self.wfile.write(HELLO.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def wrk_load(*arguments: str) -> list[str]:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    return [sys.executable, str(BENCHMARKS / "wrk_load.py"), *arguments]


def test_each_library_has_a_server_and_each_load_an_address() -> None:
    for name in [each for each in LIBRARIES if each != "bun"]:
        assert server_command(NATIVE, name) == [f"/programs/http_{name}"]
        assert (BENCHMARKS / "cpp" / "libraries" / f"http_{name}.cpp").exists()
    for load in LOADS:
        command = load_command(NATIVE, load, "1234", 5)
        assert command[command.index("--port") + 1] == "1234"
        assert command[command.index("--connections") + 1] == "5"


def test_wrk_counts_requests_and_the_time_of_the_server(port: int) -> None:
    command = wrk_load("--port", str(port), "--connections", "2", "--requests", "10")
    figures = json.loads(run([*command, "--server-pid", str(os.getpid())], CORE, timeout=60))
    assert figures["requests"] > 0
    assert figures["seconds"] > 0
    assert figures["server_cpu_seconds"] > 0
    assert 0 < figures["latency_us"]["p50"] <= figures["latency_us"]["p99"]


def test_wrk_fails_without_a_server() -> None:
    with pytest.raises(Failed, match="wrk"):
        run(wrk_load("--port", "1"), CORE, timeout=60)
