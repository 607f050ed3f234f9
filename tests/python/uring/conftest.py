"""Rings for the tests, which are skipped with a reason where the kernel refuses io_uring."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import UringCtx, probe
from tests.python.conftest import skip_absent

KINDS: dict[str, dict[str, Any]] = {
    "deferred": {},
    "cooperative": {"defer_taskrun": False},
    "sqpoll": {"sqpoll": True, "sqpoll_idle": 0.01},
}


@pytest.fixture(scope="session", autouse=True)
def _io_uring() -> None:
    found = probe()
    if not found.available:
        skip_absent(found.reason)


@pytest.fixture(params=list(KINDS))
def any_ctx(request: pytest.FixtureRequest) -> Iterator[UringCtx]:
    """A ring of each kind."""
    with UringCtx(32, **KINDS[request.param]) as ctx:
        yield ctx


@pytest.fixture
def ctx() -> Iterator[UringCtx]:
    with UringCtx(32) as made:
        yield made


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[int]:
    """A descriptor of a file of 26 blocks of 100 equal letters."""
    path = tmp_path / "letters"
    path.write_bytes(b"".join(bytes([letter]) * 100 for letter in range(97, 123)))
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(fd)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected TCP sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    with client, accepted:
        yield client, accepted


def results(completions: list[tuple[Any, Any, int]]) -> dict[Any, Any]:
    """Return results by user_data, each of which must occur once."""
    found = {tag: result for tag, result, _ in completions}
    assert len(found) == len(completions)
    return found


def run_python(program: str, *, seconds: float = 120) -> str:
    """Run a program that may crash or hang in its own process, and return its output.

    A program that hangs is ended after ``seconds``, far more than it needs, and prints a traceback.
    """
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # "-X dev" makes it print a traceback
            printed, _ = process.communicate()
    assert process.returncode == 0, f"exit code {process.returncode}: {printed}"
    return printed
