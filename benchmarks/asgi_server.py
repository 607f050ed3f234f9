"""The servers of the asgi page: an application by a chosen server.

    python benchmarks/asgi_server.py --server granian --application benchmarks.web.with_fastapi:app

Starts the server's own command on a free port of the loopback interface, prints the port when it
accepts connections, and ends it at the end of standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

# Python puts the folder of a script on the path; the package is in a folder above.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.measured_program import Unavailable, exit_code  # noqa: E402
from benchmarks.web.commands import SERVERS, Wanted, command_of  # noqa: E402

READY_SECONDS = 15.0
END_SECONDS = 3.0


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server accepts connections.

    Raises:
        Unavailable: if it ends, or does not do so in time.
    """
    last = time.monotonic() + READY_SECONDS
    while time.monotonic() < last:
        if process.poll() is not None:
            raise Unavailable(f"it has ended with exit code {process.returncode} at its start")
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Unavailable(f"it did not listen within {READY_SECONDS:g} s")


def run(name: str, wanted: Wanted) -> None:
    """Run a server until the end of standard input."""
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT)]
    process = subprocess.Popen(
        command_of(name, wanted),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        start_new_session=True,
    )
    try:
        wait_until_ready(wanted.port, process)
        print(wanted.port, flush=True)
        while not select.select([0], [], [])[0] or os.read(0, 4096):
            pass
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what is left of its workers
        process.wait()


def main() -> None:
    """Run the server."""
    # Whoever ends this process ends the server too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description="a web application by a chosen server")
    parser.add_argument("--server", required=True, choices=SERVERS)
    parser.add_argument("--application", default="benchmarks.web.applications:hello")
    parser.add_argument("--interface", default="asgi", choices=("asgi", "wsgi"))
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--http2", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    run(
        options.server,
        Wanted(
            options.application,
            free_port(),
            options.interface,
            None if options.tls is None else (options.tls[0], options.tls[1]),
            options.http2,
            options.workers,
        ),
    )


if __name__ == "__main__":
    sys.exit(exit_code(main))
