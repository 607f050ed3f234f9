"""The uvloop_bench page: its rows, and workers that accept no wrong reply and end with the load."""

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
from benchmarks.measure.processes import run, server

CORE = min(os.sched_getaffinity(0))

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@pytest.fixture(scope="module")
def native() -> Path:
    return build_native()


def test_uvloop_bench_measures_every_mode_with_large_messages(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, _ = measure_page(
        *("uvloop_bench", "--rounds", "1", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1"),
        *("--loops", own_and_asyncio, "--sizes", "102400"),
    )
    assert [cell["labels"] for cell in results["cells"]] == [
        ["100 KiB", mode] for mode in ("proto", "buffered", "streams")
    ]
    for cell in results["cells"]:
        for name in ("floor", *own_and_asyncio.split(",")):
            (sample,) = cell["contenders"][name]["rounds"]
            assert sample["requests"] > 0
            assert sample["client_cpu_seconds"] > 0


def test_workers_share_the_load(native: Path) -> None:
    with server([str(native / "echo_floor")], CORE) as floor:
        client = [str(native / "echo_workers"), "--port", floor.ready_line, "--connections", "3"]
        figures = json.loads(run([*client, "--requests", "300"], CORE, timeout=60))
    assert figures["requests"] >= 300
    assert figures["replies"] >= figures["requests"]
    assert figures["latency_us"]["p50"] > 0


def test_a_worker_that_gets_a_wrong_reply_fails_the_load(native: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [str(native / "echo_workers"), "--port", str(listener.getsockname()[1])]
        client = subprocess.Popen(
            [*command, "--connections", "1", "--size", "100"], stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            message = bytearray(connection.recv(100, socket.MSG_WAITALL))
            message[40] ^= 1
            connection.sendall(message)
            _, errors = client.communicate(timeout=20)
    assert client.returncode == 1
    assert "worker 0, message 1: the reply differs" in errors
    assert "a worker gave up" in errors
