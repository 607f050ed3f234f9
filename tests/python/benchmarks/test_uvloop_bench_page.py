"""The uvloop_bench page: its rows, and workers that reject wrong replies and end with the load."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.processes import run, server

CORE = min(os.sched_getaffinity(0))
PROGRAMS = ["echo_workers", "echo_workers.py"]

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@pytest.fixture(scope="module")
def native() -> Path:
    return build_native()


def test_uvloop_bench_measures_every_mode_with_large_messages(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, printed = measure_page(
        *("uvloop_bench", "--rounds", "1", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1"),
        *("--loops", own_and_asyncio, "--sizes", "102400"),
    )
    for client in ("cells", "python_client_cells"):
        assert [cell["labels"] for cell in results[client]] == [
            ["100 KiB", mode] for mode in ("proto", "buffered", "streams", "native-streams")
        ]
    for cell in results["cells"] + results["python_client_cells"]:
        for name in ("floor", *own_and_asyncio.split(",")):
            (sample,) = cell["contenders"][name]["rounds"]
            assert sample["requests"] > 0
            assert sample["client_cpu_seconds"] > 0
    assert printed.count("Who sets the pace with 100 KiB, `proto`") == 2


def load_command(native: Path, program: str) -> list[str]:
    if program.endswith(".py"):
        return [sys.executable, str(BENCHMARKS / program)]
    return [str(native / program)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_workers_share_the_load(native: Path, program: str) -> None:
    with server([str(native / "echo_floor")], CORE) as floor:
        client = [*load_command(native, program), "--port", floor.ready_line, "--connections", "3"]
        client += ["--requests", "300", "--server-pid", str(floor.pid)]
        figures = json.loads(run(client, CORE, timeout=60))
    assert figures["requests"] >= 300
    assert figures["replies"] >= figures["requests"]
    assert figures["server_cpu_seconds"] > 0
    assert figures["client_cpu_seconds"] > 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_worker_that_gets_a_wrong_reply_fails_the_load(native: Path, program: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [*load_command(native, program), "--port", str(listener.getsockname()[1])]
        client = subprocess.Popen(
            [*command, "--connections", "1", "--size", "100"], stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            message = bytearray(connection.recv(100, socket.MSG_WAITALL))
            message[40] ^= 1
            connection.sendall(message)
            _, errors = client.communicate(timeout=60)
    assert client.returncode == 1
    assert "worker 0, message 1: the reply differs" in errors
    assert "a worker gave up" in errors
