"""The unit of docs/howto/systemd-service.md: its command, its socket, and what it tells systemd."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.python.conftest import CORE_MISSING
from tests.python.documentation.page_steps import DOCS, blocks

from .test_serve import APP, PACKAGE

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

PAGE = DOCS / "howto" / "systemd-service.md"
SERVICE, SOCKET = (block.text for block in blocks(PAGE) if block.language == "ini")


AS_DESCRIPTOR_3 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


def test_the_units_fit_together() -> None:
    service, listening = unit(SERVICE), unit(SOCKET)
    assert service["Service"]["Type"] == "notify"
    assert service["Unit"]["Requires"] == "site.socket"
    assert "ListenStream" in listening["Socket"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_takes_the_socket_and_tells_what_it_does(tmp_path: Path, workers: str) -> None:
    (tmp_path / "main.py").write_text(APP)
    command = shlex.split(unit(SERVICE)["Service"]["ExecStart"])
    words = command[command.index("serve") :]
    words[words.index("--workers") + 1] = workers
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(os.fspath(tmp_path / "notify"))
    notified.settimeout(60)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        descriptor = listening.fileno()
        process = subprocess.Popen(
            # The manager gives the first socket as descriptor 3 (sd_listen_fds(3)).
            [
                *(sys.executable, "-c", AS_DESCRIPTOR_3, str(descriptor)),
                *("-m", "penstock.cli", *words),
            ],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": str(PACKAGE),
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": "30000000",
            },
            pass_fds=[descriptor],
        )
    try:
        said = set()
        # The socket is the service's alone now, and a client that came before waited in it.
        answer = httpx.get(f"http://127.0.0.1:{port}", trust_env=False, timeout=60)
        assert answer.status_code == 200
        while not {"READY=1", "WATCHDOG=1"} <= said:
            said.add(notified.recv(100).decode())
        process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in said:
            said.add(notified.recv(100).decode())
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.wait()
        notified.close()
