"""The memory page: resident memory, descriptors, and connections that were served."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.measure.memory import descriptors, resident_bytes
from benchmarks.measure.native import build_native
from benchmarks.measure.processes import server

CORE = min(os.sched_getaffinity(0))

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


def test_resident_memory_grows_with_what_a_process_touches() -> None:
    code = "import os\nprint(flush=True)\nos.read(0, 1)\nkept = b'x' * (64 << 20)\n"
    code += "print(flush=True)\nos.read(0, 1)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = resident_bytes(process.pid)
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.readline()
        after = resident_bytes(process.pid)
        process.communicate()
    assert 64 << 20 <= after - before < 80 << 20


@pytest.fixture
def few_descriptors() -> Iterator[tuple[int, int]]:
    """Set a soft limit below the hard one; yields both."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowered = (256, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, lowered)
    yield lowered
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_descriptors_are_raised_for_a_while_only(few_descriptors: tuple[int, int]) -> None:
    with descriptors(257):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (257, few_descriptors[1])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == few_descriptors
    with descriptors(1):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == few_descriptors


def test_more_descriptors_than_are_allowed_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10, 100))
    with (
        pytest.raises(ValueError, match="101 descriptors are needed and 100 are allowed"),
        descriptors(101),
    ):
        pass


@needs_cmake
def test_memory_measures_idle_and_churned_connections(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, printed = measure_page(
        *("memory", "--rounds", "1", "--idle", "300", "--churn", "2500"),
        *("--loops", own_and_asyncio),
    )
    (cell,) = results["cells"]
    for name in own_and_asyncio.split(","):
        (sample,) = cell["contenders"][name]["rounds"]
        assert sample["bytes_idle"] > sample["bytes_at_start"] > 0
        assert sample["bytes_settled"] > 0
    assert "of 300 idle ones" in printed


@needs_cmake
def test_a_connection_that_is_not_served_is_not_counted() -> None:
    client = str(build_native() / "connection_client")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [client, "--port", str(listener.getsockname()[1]), "--connections", "1"]
        process = subprocess.Popen(
            [*command, "--total", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"y" * len(connection.recv(64)))
            output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert "connection 0: the echo is wrong" in errors


@needs_cmake
def test_held_connections_stay_until_standard_input_ends() -> None:
    native = build_native()
    with server([str(native / "echo_floor")], CORE) as floor:
        client = [str(native / "connection_client"), "--port", floor.ready_line]
        with server([*client, "--connections", "250"], CORE) as held:
            assert held.ready_line == "ready"
            assert len(os.listdir(f"/proc/{floor.pid}/fd")) >= 250
