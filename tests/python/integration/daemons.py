"""A server program that a test starts, kills, stops and starts again on the same port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

__all__ = ["PATIENT", "Daemon", "free_port", "program_or_skip", "until"]

_PATIENCE_S = 100.0

# For a sink whose server answers, late on a loaded machine. A time-out that a test waits for is its
# own, and what follows it must hold whenever it comes.
PATIENT: dict[str, Any] = {"timeout": 60.0, "close_timeout": 120.0}


def program_or_skip(name: str, package: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"no {name} on this machine (Debian: apt-get install {package})")
    return found


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Daemon:
    """A child process that serves until it is ended.

    Args:
        command: the program and its arguments.
        log: the file for its output.
        is_ready: whether it answers.
    """

    def __init__(self, command: Sequence[str], log: Path, is_ready: Callable[[], bool]) -> None:
        self._command = command
        self._log = log
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._log.parent,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        """The number of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self._is_ready()
        return False

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, signum: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signum)
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pause(self) -> None:
        """Let it neither answer nor close its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def output(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-4000:]


async def until(condition: Callable[[], object]) -> None:
    """Return when a server or another thread has made ``condition`` true."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)
