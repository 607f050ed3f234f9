"""The asgi page: its rows with tiny rounds, and loads that accept only the right reply."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.h2load_load import understand
from benchmarks.measure.memory import process_tree
from benchmarks.measure.native import build_native
from benchmarks.web.commands import SERVERS
from tests.python.conftest import CORE_MISSING

pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed"),
    pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')"),
]

TINY = ["--rounds", "1", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1"]
MeasurePage = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def native() -> Path:
    return build_native()


def test_servers_that_are_there_are_measured_and_the_others_named(
    measure_page: MeasurePage,
) -> None:
    servers = ["penstock", "granian", "gunicorn"]
    results, printed = measure_page(
        "asgi", *TINY, "--servers", ",".join(servers), "--rows", "hello", "--connections", "2"
    )
    (cell,) = results["cells"]
    for name in ("floor", "penstock-protocol", "penstock"):
        (sample,) = cell["contenders"][name]["rounds"]
        # Of the server itself, which is a child of the measured process.
        assert sample["server_cpu_seconds"] / sample["requests"] > 1e-6
    granian = cell["contenders"]["granian"]
    assert "rounds" in granian or granian["missing"] in printed
    assert "gunicorn" not in cell["contenders"]


@pytest.mark.slow
def test_every_kind_of_row(measure_page: MeasurePage) -> None:
    rows = ["stream", "tls", "wsgi", "idle", "workers"]
    rows += ["http2"] if shutil.which("h2load") else []
    results, printed = measure_page(
        *("asgi", *TINY, "--servers", "penstock", "--rows", ",".join(rows)),
        *("--connections", "2", "--idle", "50"),
    )
    assert len(results["cells"]) == len(rows) - 2
    for cell in (*results["cells"], *results["idle_cells"], *results["workers_cells"]):
        for name, contender in cell["contenders"].items():
            assert "rounds" in contender, (cell["labels"], name, contender)
    assert "two workers over one" in printed


def test_a_process_tree_has_children_of_children() -> None:
    code = "import os, subprocess, sys; "
    code += "subprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(process_tree(process.pid)) == 2
        process.communicate(b"\n")


def converse(client: list[str], request_ends: bytes, *replies: bytes) -> tuple[int, str, str]:
    """Answer the requests of one connection; return the client's exit code and output."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [*client, "--port", str(listener.getsockname()[1]), "--connections", "1"]
        process = subprocess.Popen(
            [*command, "--warmup", "0", "--requests", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = listener.accept()
        with connection:
            for reply in replies:
                received = b""
                while not received.endswith(request_ends) and (part := connection.recv(4096)):
                    received += part
                if received:
                    connection.sendall(reply)
            output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", ""),
        (b"content-length: 3\r\n\r\nabc", ""),
        (b"content-length: 3\r\n\r\nabd", "the reply differs"),
        (b"content-length: 2\r\n\r\nab", "the reply differs"),
        (b"content-length: 3\r\n\r\nabcd", "the reply is longer"),
        (b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", "the reply differs"),
    ],
)
def test_a_body_in_parts_may_be_cut_anywhere_and_is_compared(
    native: Path, reply: bytes, said: str
) -> None:
    client = [str(native / "http_client"), "--body", "abc", "--post", "parts"]
    code, output, errors = converse(client, b"\r\n3\r\nabc\r\n0\r\n\r\n", *[HEAD + reply] * 3)
    assert (code, said in errors) == (1 if said else 0, True), errors
    assert said or json.loads(output)["requests"] == 1


def test_a_delivery_of_a_broadcast_is_compared(native: Path) -> None:
    accepted = b"HTTP/1.1 101 Switching Protocols\r\n"
    accepted += b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    wrong = b"\x81\x40" + b"2".ljust(64)
    client = [str(native / "broadcast_client")]
    code, _, errors = converse(client, b"\r\n\r\n", accepted + wrong)
    assert code == 1
    assert "a delivery differs" in errors


def test_what_h2load_reports() -> None:
    text = """
finished in 105.40ms, 9487.93 req/s, 1.02MB/s
requests: 1000 total, 1000 started, 1000 done, 999 succeeded, 1 failed, 0 errored, 0 timeout
status codes: 998 2xx, 1 3xx, 0 4xx, 0 5xx
traffic: 107.55KB (110128) total, 48.83KB (50000) headers (space 65%), 12.70KB (13000) data
"""
    assert understand(text) == (999, pytest.approx(0.1054), 2, 998, 13000)
    assert understand("finished in 1s") is None


def test_each_server_says_what_it_lacks() -> None:
    command = [sys.executable, "benchmarks/asgi_server.py", "--server", "bjoern"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert "bjoern" in SERVERS
    assert done.returncode == 69
    assert "it has WSGI only" in done.stderr or "is not installed" in done.stderr
