"""``penstock serve`` ends in a finite time, whatever hangs: requests, the lifespan, an import."""

from __future__ import annotations

import argparse
import contextlib
import errno
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.asgi._unfinished import name_of_blocking_request
from penstock.cli._serve import supervisor
from penstock.cli._serve.metrics import SharedCounters, metrics_page
from tests.python.conftest import CORE_MISSING

from .test_serve import PACKAGE, ask, folder, read_until, serving, wait_for  # noqa: F401

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

STUBBORN = """
import asyncio, os, time

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if "hangs" in os.environ.get("SHUTDOWN", ""):
            await asyncio.Event().wait()
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    while scope["path"] == "/blocks":
        time.sleep(0.01)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""
# The same with shorter times: a test does not wait for ten seconds.
HURRIED = """
import sys
from penstock.asgi import _server
from penstock.cli._serve import running
_server._AFTER_DISCONNECT = _server._AFTER_CANCEL = _server._AFTER_LOSS = 0.05
running._AFTER_LEFT = running.AFTER_ABORT = 0.05
running.AFTER_GRACE = 1.0
from penstock.cli import main
sys.exit(main())
"""


@contextlib.contextmanager
def stubborn(
    folder: Path,  # noqa: F811
    *options: str,
    **variables: str,
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the command with short times; yield the process and its port."""
    (folder / "stubborn.py").write_text(STUBBORN)
    words = ["serve", "stubborn:app", "--port", "0", "--no-access-log", *options]
    process = subprocess.Popen(
        [sys.executable, "-c", HURRIED, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)} | variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        port = int(wait_for(process.stderr, r"Serving on http://127.0.0.1:(\d+)")[1])
        yield process, port
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def begun(port: int, path: str) -> Iterator[int]:
    """A request whose response has begun; yield the client's port."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while b"begun" not in received:
            part = client.recv(4096)
            assert part
            received += part
        yield client.getsockname()[1]


@pytest.mark.parametrize("path", ["/held", "/blocks"])
def test_a_request_that_swallows_its_cancellation_is_named_and_left(
    folder: Path,  # noqa: F811
    path: str,
) -> None:
    options = ("--timeout-graceful-shutdown", "0")
    with stubborn(folder, *options) as (process, port), begun(port, path) as client:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    lines = [line for line in errors.splitlines() if "end" in line and f"GET {path}" in line]
    assert lines[-1].endswith(f"GET {path} of 127.0.0.1:{client}")


def test_a_third_ctrl_c_ends_a_process_at_once(folder: Path) -> None:  # noqa: F811
    with stubborn(folder) as (process, port), begun(port, "/held"):
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        wait_for(process.stderr, "Shutting down")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Interrupted again" in errors


def test_ctrl_c_again_ends_a_shutdown_that_hangs(folder: Path) -> None:  # noqa: F811
    with stubborn(folder, SHUTDOWN="hangs") as (process, _):
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        wait_for(process.stderr, "Waiting for application shutdown")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    # The server gives it up; the watch over the process may be first on a machine under load.
    assert "The application's shutdown has not ended" in errors or "LifespanTask" in errors


def test_a_new_worker_that_hangs_in_its_import_leaves_the_old_ones(
    folder: Path,  # noqa: F811
) -> None:
    options = ("--workers", "2", "--no-access-log", "--timeout-worker-start", "0.3")
    with serving(folder, "served:app", *options) as (process, url):
        assert process.stderr is not None
        first = {
            int(wait_for(process.stderr, r"Started server process \[(\d+)\]")[1]) for _ in range(2)
        }
        # The first ones may be slower than this limit on a busy machine, which is only said.
        assert int(ask(url)[0]) in first
        (folder / "served.py").write_text("import time\nwhile True: time.sleep(1)")
        process.send_signal(signal.SIGHUP)
        wait_for(process.stderr, "is not ready after 0.3 s; it is killed, and the old ones are")
        assert int(ask(url)[0]) in first
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_ctrl_c_again_reaches_the_workers(folder: Path) -> None:  # noqa: F811
    with stubborn(folder, "--workers", "2", "--lifespan", "off") as (process, port):
        assert process.stderr is not None
        with begun(port, "/held"):
            process.send_signal(signal.SIGINT)
            wait_for(process.stderr, "Shutting down")
            process.send_signal(signal.SIGINT)
            wait_for(process.stderr, "Interrupted again")
            process.send_signal(signal.SIGINT)
            wait_for(process.stderr, "Interrupted once more: the workers are killed")
            wait_for(process.stderr, "Stopped parent process")
            assert process.wait(60) == 0


def test_a_reload_waits_for_code_that_starts(folder: Path) -> None:  # noqa: F811
    options = ("served:app", "--reload", "--reload-delay", "0", "--no-access-log")
    with serving(folder, *options) as (process, url):
        assert process.stderr is not None
        wait_for(process.stderr, "Application startup complete")
        good = (folder / "served.py").read_text()
        (folder / "served.py").write_text("a fault")
        wait_for(process.stderr, "it is tried again after a change")
        (folder / "served.py").write_text(good + "\n")
        wait_for(process.stderr, "Application startup complete")
        assert ask(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def options_of_supervisor(**others: Any) -> argparse.Namespace:
    given = {
        "timeout_graceful_shutdown": 0.0,
        "timeout_worker_healthcheck": 60.0,
        "timeout_worker_start": 0.0,
        "reload": False,
        "workers": 1,
    }
    return argparse.Namespace(**given | others)


def test_a_worker_for_which_the_system_has_no_room_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    metrics = SharedCounters()
    made = supervisor.Supervisor(
        options_of_supervisor(), [], logging.getLogger("test"), metrics=metrics
    )
    monkeypatch.setattr(supervisor, "WorkerProcess", refuse)
    assert made._look_after_workers()
    assert "A worker cannot be started" in caplog.text
    assert metrics.take() == 0


def test_workers_that_have_stood_still_with_their_supervisor_are_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A container that is frozen for a minute stops all of them."""
    moment = 1000.0
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: moment))
    options = options_of_supervisor(workers=0, timeout_worker_healthcheck=5.0)
    made = supervisor.Supervisor(options, [], logging.getLogger("test"))
    worker = made._start()
    assert worker is not None
    worker.process.kill()
    worker.process.wait()
    worker.process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    worker.ready, worker.heard, worker.started = True, moment, moment
    with worker.process:
        moment += 60.0
        assert made._look_after_workers()
        assert "unresponsive" not in caplog.text
        for _ in range(20):  # it hangs all the same
            moment += 0.3
            assert made._look_after_workers()
        assert "unresponsive" in caplog.text
    assert worker.process.returncode == -signal.SIGKILL
    assert made._look_after_workers()


READS = """
import sys

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise TypeError("no lifespan")
    line = sys.stdin.readline().encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": line})
"""
IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "penstock.cli", *sys.argv[1:]])
"""


def test_a_debugger_in_a_reloaded_application_has_the_terminal(
    folder: Path,  # noqa: F811
) -> None:
    """A group of its own would be stopped when it reads. Ctrl-C still ends both processes."""
    (folder / "reads.py").write_text(READS)
    terminal, inner = os.openpty()
    words = ["serve", "reads:app", "--reload", "--port", "0", "--no-access-log"]
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        stdin=inner,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = wait_for(process.stderr, r"Serving on (https?://\S+)")[1]
        wait_for(process.stderr, "Application startup complete")
        os.write(terminal, b"next\n")
        assert ask(url) == ["next"]
        os.write(terminal, b"\x03")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Traceback" not in errors
        assert "Interrupted again" not in errors
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)
        os.close(inner)


def test_more_workers_than_the_memory_has_places() -> None:
    metrics = SharedCounters()
    places = [metrics.take() for _ in range(300)]
    assert places == list(range(300))
    for place in places:
        # Each worker maps the memory as it is when it begins.
        counters = SharedCounters(metrics.descriptor).place(place)
        counters.begin(place + 1, 1.0)
        counters.count(200, 0.001)
    page = metrics_page(metrics)
    assert re.search(r"^penstock_workers 300$", page, re.MULTILINE)
    assert 'penstock_requests_total{status="200"} 300' in page


def test_a_dictionary_of_openapi_is_not_a_request() -> None:
    """To name it raised KeyError, in the thread that ends a process which hangs."""
    scheme = {"type": "http", "scheme": "bearer"}
    assert name_of_blocking_request(threading.get_ident()) is None
    assert scheme["scheme"] == "bearer"
