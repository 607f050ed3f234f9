"""`python -m penstock.sim` as a program that starts it sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.sim
from penstock.serial import SerialConfig, open_serial_port
from penstock.sim._line.framing import modbus_checksum

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(penstock.sim.__file__).parents[2])}
COMMAND = [sys.executable, "-m", "penstock.sim"]
BUSES = ["--bus", "A:500,B:100", "--bus", "C:10SLPM", "--baud", "115200", "--noise", "0"]


@contextmanager
def simulator(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def ask(path: str, request: bytes) -> bytes:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        os.write(descriptor, request)
        answer = b""
        while not answer.endswith(b"\r"):
            assert select.select([descriptor], [], [], 20)[0], f"only {answer!r} came"
            answer += os.read(descriptor, 4096)
        return answer
    finally:
        os.close(descriptor)


def test_it_names_its_ports_serves_them_and_ends_with_its_input() -> None:
    with simulator(*BUSES) as (process, ready):
        first, second = ready["buses"]
        assert first["units"] == ["A", "B"]
        assert second["units"] == ["C"]
        assert first["baudrate"] == second["baudrate"] == 115200
        assert ask(first["path"], b"BFPF 5\r") == b"B +100.00 12 SCCM\r"
        assert ask(second["path"], b"CFPF 5\r") == b"C +10.000 7 SLPM\r"
        assert ask(first["path"], b"A\r").startswith(b"A +014.62 +021.89 +000.00")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    with simulator(*BUSES) as (process, _):
        process.send_signal(number)
        assert process.wait(20) == 0


def test_it_runs_on_without_input_when_told_to() -> None:
    with simulator(*BUSES, "--no-stdin") as (process, ready):
        assert process.stdin is not None
        process.stdin.close()
        assert ask(ready["buses"][0]["path"], b"BLSS\r") == b"B S\r"
        assert process.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_it_ends_with_the_process_that_started_it() -> None:
    # The starter leaves at once without a word; the write end of the simulator's input is ours,
    # so that only the parent's death can end it.
    starter = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stdout.readline(), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, *COMMAND, *BUSES, "--no-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as parent:
        assert parent.stdout is not None
        pid, _, ready = parent.stdout.readline().partition(" ")
        path = json.loads(ready)["buses"][0]["path"]
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            assert ask(path, b"BLSS\r") == b"B S\r"
            parent.kill()
            # The hang-up on a port that is held open, as the path may soon be somebody else's.
            port = select.poll()
            port.register(descriptor, 0)
            assert port.poll(20_000), f"simulator {pid} is still there"
        finally:
            os.close(descriptor)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bus", "A500"], "'A500' is not a unit; write ID:FULLSCALE"),
        (["--bus", "A:500,A:100"], "unit ids A, A are not all different"),
        (["--bus", "A:0"], "full scale 0.0 is not between"),
        (["--bus", "A:5", "--baud", "0"], "baud rate 0 is not positive"),
        (["--bus", "A:5", "--tau", "-1"], "time constant -1.0 s is negative"),
        ([], "one of the arguments is required: --bus or --fleet"),
        (["--bus", "A:5", "--protocol", "modbus-tcp"], "needs a network port; add --tcp"),
        (
            ["--bus", "A:5", "--protocol", "modbus-tcp", "--tcp", "0", "--rfc2217", "0"],
            "is not on a serial line; leave out --rfc2217",
        ),
        (["--fleet", "f.toml", "--baud", "9600"], "--baud is of --bus alone; with --fleet write"),
        (["--fleet", "f.toml", "--firmware", "8v17"], "write firmware under [[bus.unit]]"),
        (["--fleet", "f.toml", "--tau", "1"], "--tau is of --bus alone"),
        (["--fleet", "f.toml", "--seed", "1"], "--seed is of --bus alone"),
        (["--fleet", "f.toml", "--noise", "0"], "--noise is of --bus alone"),
        (["--fleet", "f.toml", "--turnaround", "0"], "--turnaround is of --bus alone"),
        (["--bus", "A:5", "--fleet", "x.toml"], "one of the arguments is required"),
        (["--fleet", "none.toml"], "none.toml: No such file"),
        (["--bus", "A:5", "--fault", "none.toml"], "none.toml: No such file"),
        (["--bus", "A:5", "--tcp", "70000"], "--tcp 70000: 1 ports from there are not between"),
        (
            ["--bus", "A:5", "--bus", "B:5", "--tcp", "4000", "--rfc2217", "4001"],
            "leave 2 ports between them",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str
) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


FLEET = """\
[[bus]]
name = "gas"
baudrate = 115200

[[bus.unit]]
id = "A"
full_scale = 500

[[bus]]
name = "pressure"

[[bus.unit]]
id = "P"
family = "pressure-meter"
full_scale = 100
"""


def ask_tcp(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request)
        answer = b""
        while not answer.endswith(b"\r"):
            answer += client.recv(4096)
        return answer


async def ask_rfc2217(port: int, request: bytes) -> bytes:
    config = SerialConfig(baudrate=115200)
    with anyio.fail_after(20):
        async with await open_serial_port(f"rfc2217://127.0.0.1:{port}", config) as remote:
            await remote.send(request)
            answer = b""
            while not answer.endswith(b"\r"):
                answer += await remote.receive()
            return answer


def test_fleet_is_served_on_links_tcp_and_rfc2217_at_once(tmp_path: Path) -> None:
    fleet, links, log = tmp_path / "fleet.toml", tmp_path / "ports", tmp_path / "faults.jsonl"
    fleet.write_text(FLEET)
    plan = tmp_path / "plan.toml"
    plan.write_text('[bus.gas]\nforeign_id = {1 = "Z"}\n')
    arguments = ["--fleet", str(fleet), "--link", str(links), "--tcp", "0", "--rfc2217", "0"]
    with simulator(*arguments, "--fault", str(plan), "--fault-log", str(log)) as (process, ready):
        gas, pressure = ready["buses"]
        assert [bus["name"] for bus in ready["buses"]] == ["gas", "pressure"]
        assert gas["path"] == str(links / "gas")
        assert ask(gas["path"], b"ALSS\r") == b"Z S\r"
        assert ask(gas["path"], b"ALSS\r") == b"A S\r"
        assert ask_tcp(gas["tcp"], b"ALS 20\r") == b"A +000.00 +020.00 12 SCCM\r"
        # One and the same instrument answers on every port.
        assert ask(gas["path"], b"ALS\r").endswith(b"+020.00 12 SCCM\r")
        assert ask_tcp(pressure["tcp"], b"PVE\r").startswith(b"P   10v20")
        assert anyio.run(ask_rfc2217, gas["rfc2217"], b"ALSS\r") == b"A S\r"
        assert json.loads(log.read_text().splitlines()[0])["kind"] == "foreign-id"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not (links / "gas").is_symlink()


def test_taken_tcp_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--bus", "A:5", "--tcp", str(number)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "choose another --link, --tcp" in done.stderr
    assert "Traceback" not in done.stderr


def test_description_names_the_provenance_of_every_firmware() -> None:
    done = subprocess.run(
        [*COMMAND, "--describe"], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    firmwares = json.loads(done.stdout)["firmwares"]
    assert firmwares["10v20"]["provenance"] == "captured"
    assert firmwares["coda"]["provenance"] == "guess"
    assert all(f["notes"] for f in firmwares.values() if f["provenance"] != "captured")


def test_the_same_seed_gives_the_same_noise() -> None:
    def readings(seed: str) -> bytes:
        with simulator("--bus", "A:500", "--noise", "0.01", "--seed", seed) as (_, ready):
            path = ready["buses"][0]["path"]
            return b"".join(ask(path, b"ADV 1 5\r") for _ in range(5))

    assert readings("1") == readings("1") != readings("2")


def test_modbus_units_are_served_on_their_ports() -> None:
    request = bytes.fromhex("02 03 04af 0001")
    rtu = request + modbus_checksum(request)
    with simulator("--bus", "A:500,B:100", "--protocol", "modbus-rtu") as (_, ready):
        (bus,) = ready["buses"]
        assert (bus["protocol"], bus["units"]) == ("modbus-rtu", ["1", "2"])
        descriptor = os.open(bus["path"], os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(descriptor, rtu)
            answer = b""
            while len(answer) < 7:
                assert select.select([descriptor], [], [], 20)[0], f"only {answer!r} came"
                answer += os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
        assert answer[:5] == bytes.fromhex("02 03 02 0008")
    arguments = ("--bus", "A:500", "--protocol", "modbus-tcp", "--tcp", "0")
    with simulator(*arguments) as (_, ready):
        (bus,) = ready["buses"]
        assert "path" not in bus
        with socket.create_connection(("127.0.0.1", bus["tcp"]), 20) as client:
            client.sendall(bytes.fromhex("0007 0000 0006 01 03 04af 0001"))
            assert client.recv(100) == bytes.fromhex("0007 0000 0005 01 03 02 0008")


def test_units_hear_their_own_baud_rate_alone_when_told_to() -> None:
    with simulator("--bus", "A:500", "--baud", "9600", "--match-baud") as (_, ready):
        path = ready["buses"][0]["path"]
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            for speed, answers in ((termios.B19200, False), (termios.B9600, True)):
                settings = termios.tcgetattr(descriptor)
                settings[4] = settings[5] = speed
                termios.tcsetattr(descriptor, termios.TCSANOW, settings)
                os.write(descriptor, b"ALSS\r")
                found = select.select([descriptor], [], [], 20 if answers else 0.3)[0]
                assert bool(found) is answers
        finally:
            os.close(descriptor)
