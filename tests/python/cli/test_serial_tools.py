"""``penstock ports`` and ``penstock serial serve``, and what they and ``term`` refuse."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._interrupts import Interrupts
from penstock.cli._serial import ports
from penstock.cli._serial.ports import links_to
from penstock.serial import PortEvent, PortInfo
from penstock.serial.discovery import native_ports
from tests.python.serial.pty_peer import PtyPeer, received

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_served_port_can_be_opened_by_its_url(
    start: Callable[..., Any], environment: dict[str, str], peer: PtyPeer
) -> None:
    server = start("serial", "serve", peer.path, "--port", "0", "--baud", "9600")
    url = server.wait_for("is served at").split()[-1]
    answer = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "term", url, "--linger", "0.5", "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert answer.stdin is not None and answer.stdout is not None
    answer.stdin.write(b"question\xff")
    answer.stdin.flush()
    assert received(peer, 9) == b"question\xff"
    peer.write(b"answer\xff")
    # Before its input ends: from then on it waits for half a second, and the server may be late.
    assert answer.stdout.read(7) == b"answer\xff"
    output, _ = answer.communicate(timeout=60)
    assert output == b""
    server.process.send_signal(signal.SIGINT)
    assert server.finish()[0] == 130


def test_serving_ends_when_the_device_is_unplugged(
    start: Callable[..., Any], peer: PtyPeer
) -> None:
    import penstock.serial.compat as serial

    server = start("serial", "serve", peer.path, "--port", "0")
    url = server.wait_for("is served at").split()[-1]
    with serial.Serial(url, timeout=60) as client:
        peer.unplug()
        with pytest.raises(serial.SerialException):
            client.read()
    code, _, errors = server.finish()
    assert code == 4
    assert "was disconnected" in errors


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.2", False), ("0.0.0.0", True)])
def test_only_an_address_that_others_can_reach_is_warned_of(
    start: Callable[..., Any], peer: PtyPeer, host: str, warned: bool
) -> None:
    server = start("serial", "serve", peer.path, "--port", "0", "--host", host)
    server.wait_for("is served at")
    server.process.send_signal(signal.SIGINT)
    assert ("anyone who reaches" in server.finish()[2]) is warned


def test_ports_are_listed_as_text_and_as_json(penstock: Command) -> None:
    text, data = penstock("ports"), penstock("ports", "--json")
    assert (text.returncode, data.returncode) == (0, 0)
    listed = json.loads(data.stdout)["ports"]
    devices = [line.split()[0] for line in text.stdout.splitlines() if not line.startswith(" ")]
    assert devices == [port["device"] for port in listed]
    if not listed:
        assert "no serial ports found" in text.stderr
    for port in listed:
        assert {"device", "description", "vid", "serial_number", "links"} <= set(port)


def test_control_characters_in_a_devices_name_are_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = PortInfo(device="/dev/ttyUSB0", description="Gerät\x1b[2J\nx", hwid="SER=\x07\x9b")

    async def one_port() -> list[PortInfo]:
        return [port]

    async def watch(*, existing: bool) -> AsyncIterator[PortEvent]:
        yield PortEvent("added", port)

    monkeypatch.setattr(ports, "list_serial_ports", one_port)
    monkeypatch.setattr(ports, "watch_serial_ports", watch)
    for watching, sign in ((False, ""), (True, "+ ")):
        options = argparse.Namespace(watch=watching, json=False)
        assert ports.run_ports(options, Interrupts()) == 0
        line = r"/dev/ttyUSB0  Gerät\x1b[2J\nx  SER=\x07\x9b"
        assert capsys.readouterr().out == f"{sign}{line}\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_continues_until_a_signal(start: Callable[..., Any], as_json: bool) -> None:
    watching = start("ports", "--watch", *(["--json"] if as_json else []))
    if native_ports():
        line = watching.wait_for("tty")
        if as_json:
            assert json.loads(line)["event"] == "added"
        else:
            assert line.startswith("+ /dev/tty")
    else:
        assert "Ctrl-C ends" in watching.process.stderr.readline()
    watching.process.send_signal(signal.SIGTERM)
    assert watching.finish()[0] == 143


def test_stable_names_are_the_links_to_the_device(tmp_path: Path) -> None:
    (tmp_path / "ttyUSB0").touch()
    (tmp_path / "by-id").mkdir()
    for name, target in (("b", "ttyUSB0"), ("a", "ttyUSB0"), ("c", "ttyUSB1")):
        (tmp_path / "by-id" / name).symlink_to(tmp_path / target)
    folder = tmp_path / "by-id"
    assert links_to(str(tmp_path / "ttyUSB0"), folder) == [str(folder / "a"), str(folder / "b")]
    assert links_to(str(tmp_path / "ttyUSB0"), tmp_path / "none") == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("term", "/dev/ttyUSB97"), 4, "/dev/ttyUSB97 does not exist"),
        (("term", ""), 4, "'' cannot be the name of a port"),
        (("term", "socket://host"), 4, "write it as socket://HOST:PORT"),
        (("term", "loop://", "--baud", "0"), 2, "baudrate must be an integer from 1"),
        (("term", "loop://", "--log", "/"), 5, "choose another file with --log"),
        (("serial", "serve", "/dev/ttyUSB97"), 4, "/dev/ttyUSB97 does not exist"),
        (("serial", "serve", "loop://", "--port", "x"), 2, "'x' is not a TCP port"),
        (("serial", "serve", "loop://", "--host", "1.2.3.4"), 4, "cannot listen on 1.2.3.4"),
        (("serial",), 2, "ACTION"),
    ],
)
def test_impossible_request_is_reported_in_one_sentence(
    penstock: Command, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = penstock(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
