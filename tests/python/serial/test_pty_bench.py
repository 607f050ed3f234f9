"""Two ttys connected by a cable: Penstock at both ends, or Penstock and another program."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import termios
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import serial

from penstock.serial import (
    SerialConfig,
    SerialDisconnectedError,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial._tty import system_calls
from penstock.serial.testing import PtyBench, tty0tty_pairs
from tests.python.serial.pty_peer import until
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


async def test_bytes_cross_the_cable_both_ways(bench: PtyBench) -> None:
    payload = os.urandom(200_000)
    async with (
        await open_serial_port(bench.a.path) as a,
        await open_serial_port(bench.b.path) as b,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(a.send, payload)
        tasks.start_soon(b.send, payload)
        assert await receive_exactly(b, len(payload)) == payload
        assert await receive_exactly(a, len(payload)) == payload


async def test_lines_and_errors_come_from_the_emulated_drivers(bench: PtyBench) -> None:
    async with (
        await open_serial_port(bench.a.path) as a,
        await open_serial_port(bench.b.path) as b,
    ):
        await a.set_control_lines(rts=True, dtr=False)
        lines = await b.modem_lines()
        assert (lines.cts, lines.dsr) == (True, False)
        bench.b.driver.fail[termios.TIOCMGET] = errno.ENOTTY
        with pytest.raises(UnsupportedFeatureError):
            await b.modem_lines()
        await a.modem_lines()


async def test_unplugging_one_device_leaves_the_other(bench: PtyBench) -> None:
    async with (
        await open_serial_port(bench.a.path) as a,
        await open_serial_port(bench.b.path) as b,
    ):
        bench.unplug(bench.b)
        with pytest.raises(SerialDisconnectedError):
            await b.receive()
        await a.send(b"into the air")
        assert a.is_open


@pytest.mark.parametrize(
    "call",
    [
        *("receive", "drain", "drain_exact", "modem_lines", "control_lines", "wait_modem_event"),
        *("error_counters", "reset_input_buffer", "reset_output_buffer", "send_break"),
    ],
)
async def test_every_call_on_an_unplugged_device_raises_disconnected(
    bench: PtyBench, call: str
) -> None:
    async with await open_serial_port(bench.a.path) as port:
        bench.unplug(bench.a)
        with pytest.raises(SerialDisconnectedError):
            await getattr(port, call)()
        assert not port.is_open


async def test_unplugging_ends_a_wait_for_a_line(bench: PtyBench) -> None:
    async with await open_serial_port(bench.a.path) as port:

        async def wait() -> None:
            with pytest.raises(SerialDisconnectedError):
                await port.wait_modem_event()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await until(lambda: system_calls.TIOCMIWAIT in bench.a.driver.requests)
            bench.unplug(bench.a)


async def test_pyserial_works_at_the_other_end(bench: PtyBench) -> None:
    async with await open_serial_port(bench.a.path, SerialConfig(baudrate=57_600)) as port:
        with serial.Serial(bench.b.path, 57_600, timeout=30, exclusive=True) as other:
            await port.send(b"ping\n")
            assert await anyio.to_thread.run_sync(other.readline) == b"ping\n"
            other.write(b"pong\n")
            assert await receive_exactly(port, 5) == b"pong\n"


async def test_socat_works_at_the_other_end(tmp_path: Path) -> None:
    if shutil.which("socat") is None:
        pytest.fail("socat is missing; run 'scripts/setup test' first")
    near, far = tmp_path / "near", tmp_path / "far"
    command = ["socat", f"pty,raw,echo=0,link={near}", f"pty,raw,echo=0,link={far}"]
    with subprocess.Popen(command) as socat:
        try:
            with anyio.fail_after(30):
                while not (near.exists() and far.exists()):
                    await anyio.lowlevel.checkpoint()
            payload = bytes(range(256)) * 100
            async with (
                await open_serial_port(str(near)) as a,
                await open_serial_port(str(far)) as b,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(a.send, payload)
                assert await receive_exactly(b, len(payload)) == payload
        finally:
            socat.terminate()


async def test_socat_works_as_a_device_server(tmp_path: Path) -> None:
    if shutil.which("socat") is None:
        pytest.fail("socat is missing; run 'scripts/setup test' first")
    link = tmp_path / "device"
    command = ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1", f"PTY,raw,echo=0,link={link}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as socat:
        assert socat.stderr is not None
        try:
            address = await anyio.to_thread.run_sync(socat.stderr.readline)
            number = int(address.rpartition(":")[2])
            async with await open_serial_port(f"socket://127.0.0.1:{number}") as remote:
                with anyio.fail_after(30):
                    while not link.exists():
                        await anyio.lowlevel.checkpoint()
                payload = bytes(range(256)) * 100
                async with await open_serial_port(str(link)) as device:
                    for sender, receiver in ((remote, device), (device, remote)):
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(sender.send, payload)
                            assert await receive_exactly(receiver, len(payload)) == payload
                    socat.terminate()
                    for port in (remote, device):
                        with pytest.raises(SerialDisconnectedError):
                            await port.receive()
        finally:
            socat.kill()


async def test_tty0tty_ports_work() -> None:
    pairs = tty0tty_pairs()
    if not pairs:
        pytest.skip("the kernel has no tty0tty module loaded")
    async with (
        await open_serial_port(pairs[0][0]) as a,
        await open_serial_port(pairs[0][1]) as b,
    ):
        await a.set_control_lines(rts=True)
        assert (await b.modem_lines()).cts
        await a.send(b"across")
        assert await receive_exactly(b, 6) == b"across"


def test_tty0tty_pairs_are_found_by_name(tmp_path: Path) -> None:
    for number in (0, 1, 4):
        (tmp_path / f"tnt{number}").touch()
    assert tty0tty_pairs(tmp_path) == [(str(tmp_path / "tnt0"), str(tmp_path / "tnt1"))]
