"""``penstock record`` under a service manager: what arrives at its socket."""

from __future__ import annotations

import configparser
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.cli._parser import build_parser
from penstock.cli._service_manager import ServiceManager
from tests.python.cli.conftest import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its name as NOTIFY_SOCKET has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(60)
        if request.param == "path":
            name = str(tmp_path / "notify")
            receiver.bind(name)
        else:
            name = f"@penstock-{os.getpid()}"
            receiver.bind("\0" + name[1:])
        yield receiver, name


def _wait_for(receiver: socket.socket, state: str) -> list[str]:
    """The states up to the one that begins with ``state``."""
    seen: list[str] = []
    while not any(each.startswith(state) for each in seen):
        seen += receiver.recv(4096).decode().split("\n")
    return seen


@pytest.mark.usefixtures("native_loop")
def test_a_run_tells_that_it_is_ready_that_it_lives_and_that_it_ends(
    manager: tuple[socket.socket, str], simulator: Any, tmp_path: Path
) -> None:
    receiver, name = manager
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        '[record]\nout = "out"\nformats = ["csv"]\n'
        f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
    )
    environment = {**ENVIRONMENT, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "400000"}
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "record", "run.toml", "--no-plot"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for(receiver, "READY=1")
            for _ in range(3):
                _wait_for(receiver, "WATCHDOG=1")
            assert "=0 samples" not in _wait_for(receiver, "STATUS=1")[-1]
            process.send_signal(signal.SIGTERM)
            _wait_for(receiver, "STOPPING=1")
            assert process.wait(timeout=60) == 143
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_of_another_process_is_not_fed(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/nowhere", **environ}).watchdog_s == seconds
    assert ServiceManager(environ).watchdog_s is None


def test_a_service_manager_that_is_away_stops_nothing(tmp_path: Path) -> None:
    for name in ("", "relative", "@", str(tmp_path / "nobody"), "@penstock-nobody"):
        ServiceManager({"NOTIFY_SOCKET": name}).tell("READY=1")


def test_a_full_socket_does_not_hold_the_loop(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for _ in range(5_000):  # more than any queue takes
            service.tell("WATCHDOG=1")


def test_a_loop_that_hangs_gives_no_sign_of_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000"}

        def drain() -> int:
            count = 0
            while True:
                try:
                    receiver.recv(4096)
                except BlockingIOError:
                    return count
                count += 1

        async def main() -> None:
            async with ServiceManager(environ).kept_informed(lambda: "two\nlines"):
                while not drain():
                    await anyio.lowlevel.checkpoint()
                with pytest.raises(subprocess.TimeoutExpired):  # the loop hangs meanwhile
                    subprocess.run(["sleep", "5"], timeout=0.2, check=False)
                assert drain() == 0
                while not drain():
                    await anyio.lowlevel.checkpoint()

        anyio.run(main)


def test_the_example_unit_waits_for_the_recorder_and_watches_it() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "examples" / "penstock-record.service")
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 10
    assert service["Restart"] == "on-failure"
    for key in ("ExecStart", "ExecStopPost"):
        program, *arguments = service[key].split()
        assert Path(program).name == "penstock"
        build_parser(arguments).parse_args(arguments)
