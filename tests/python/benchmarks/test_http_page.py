"""The http page: both frameworks on a loop, and a load that accepts only the right reply."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.native import build_native

CORE = min(os.sched_getaffinity(0))
BODY = "Hello, world!"
DATE = "Date: Sat, 21 Nov 2026 00:00:0{} GMT\r\n"
REPLY = f"HTTP/1.1 200 OK\r\n{DATE}Content-Length: 13\r\n\r\n{BODY}"

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@pytest.fixture(scope="module")
def client() -> Path:
    return build_native() / "http_client"


def converse(client: Path, *replies: str) -> tuple[int, str, str]:
    """Answer the requests of one connection; return the client's exit code and output."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [str(client), "--port", port, "--connections", "1", "--body", BODY]
        command += ["--warmup", "0", "--requests", "1"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            for reply in replies:
                assert connection.recv(4096).endswith(b"\r\n\r\n")
                connection.sendall(reply.encode())
            output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


@pytest.mark.parametrize(("framework", "module"), [("uvicorn", "uvicorn"), ("aiohttp", "aiohttp")])
def test_http_measures_a_framework_on_every_loop(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
    own_and_asyncio: str,
    framework: str,
    module: str,
) -> None:
    pytest.importorskip(module)
    if framework == "uvicorn":
        pytest.importorskip("httptools")
    results, _ = measure_page(
        *("http", "--frameworks", framework, "--loops", own_and_asyncio, "--connections", "2"),
        *("--rounds", "1", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1"),
    )
    (cell,) = results["cells"]
    for name in own_and_asyncio.split(","):
        assert cell["contenders"][name]["rounds"][0]["requests"] > 0


def test_replies_may_differ_in_their_date_alone(client: Path) -> None:
    # The first message is the warm-up; the third is in flight when the count is reached.
    code, output, errors = converse(client, *(REPLY.format(second) for second in range(3)))
    assert code == 0, errors
    assert json.loads(output)["replies"] == 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (REPLY.format(1).replace("200 OK", "500 No"), "message 1, byte 0: the reply differs"),
        (REPLY.format(1).replace("world", "World"), "message 1, byte 0: the reply differs"),
        (REPLY.format(1).replace("13", "14"), "message 1, byte 0: the reply differs"),
        (REPLY.format(1).replace("Content-", "Contents-"), "message 1, byte 0: the reply differs"),
        (REPLY.format(1) + "!", "message 1, byte 0: the reply is longer"),
    ],
)
def test_a_first_reply_that_is_wrong_is_refused(client: Path, reply: str, said: str) -> None:
    code, _, errors = converse(client, reply)
    assert code == 1
    assert said in errors


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (REPLY.format(2).replace("world", "World"), "message 2, byte 0: the reply differs"),
        (REPLY.format(2).replace("Length", "length"), "message 2, byte 0: the reply differs"),
        (REPLY.format(2) + REPLY.format(2), "message 2, byte 0: the reply is longer"),
    ],
)
def test_a_later_reply_that_is_not_as_the_first_is_refused(
    client: Path, reply: str, said: str
) -> None:
    code, _, errors = converse(client, REPLY.format(1), reply)
    assert code == 1
    assert said in errors
