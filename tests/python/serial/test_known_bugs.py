"""Fourteen bugs of another library with the same interface; each is absent here.

One test per bug, in the order of that library's list. The sibling files test each in depth.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.serial import (
    ConfigurationError,
    PortBusyError,
    PortPermissionError,
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialError,
    SerialPort,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial._sysfs import port_info_for
from penstock.serial._tty import system_calls
from penstock.serial._tty.driver_modes import LowLatency
from penstock.serial.exceptions import errno_to_exception
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until
from tests.python.serial.sysfs_tree import Sysfs

pytestmark = pytest.mark.anyio


async def test_1_no_termios_error_escapes(peer: PtyPeer, tmp_path: Path) -> None:
    regular = tmp_path / "file"
    regular.touch()
    for path in ("/dev/null", str(regular)):
        with pytest.raises(SerialError, match="is not a serial port"):
            await open_serial_port(path)
    async with await open_serial_port(peer.path) as port:
        peer.unplug()
        for call in (
            lambda: port.configure(SerialConfig()),
            port.reset_input_buffer,
            port.reset_output_buffer,
            port.drain_exact,
        ):
            with pytest.raises(SerialError):
                await call()


async def test_2_every_call_reports_a_disconnect_the_same_way(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.unplug()
        calls: list[Callable[[], Any]] = [
            *(port.receive, port.receive_available, port.drain, port.modem_lines),
            lambda: port.send(b"x"),
        ]
        for call in calls:
            with pytest.raises(SerialDisconnectedError):
                await call()
        for count in (port.input_waiting, port.output_waiting):
            with pytest.raises(SerialDisconnectedError):
                count()
        assert not port.is_open
    for code in (errno.EIO, errno.EPIPE, errno.ENODEV, errno.ENXIO):
        error = errno_to_exception(OSError(code, ""), context="io", path="/dev/ttyUSB0")
        assert isinstance(error, SerialDisconnectedError)


def test_3_missing_permission_is_not_reported_as_busy() -> None:
    error = errno_to_exception(OSError(errno.EACCES, ""), context="open", path="/dev/ttyNONE")
    assert isinstance(error, PortPermissionError)
    assert isinstance(error, PermissionError)
    assert not isinstance(error, PortBusyError)
    assert "dialout" in str(error)


@pytest.mark.parametrize(
    "fields",
    [
        {"parity": "E"},
        {"byte_size": 8},
        {"stop_bits": 1},
        {"baudrate": True},
        {"baudrate": 9600.5},
        {"baudrate": 2**33},
    ],
    ids=str,
)
def test_4_setting_of_the_wrong_type_is_refused(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(ConfigurationError, match=name):
        SerialConfig(**fields)


async def test_5_failed_configuration_changes_nothing(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, SerialConfig(baudrate=115_200)) as port:
        before = peer.settings()
        with pytest.raises(UnsupportedFeatureError):
            await port.configure(SerialConfig(baudrate=9600, rs485=RS485Config()))
        assert peer.settings() == before
        assert port.config.baudrate == port.actual_baudrate == 115_200


async def test_6_every_setting_can_be_changed_at_any_time(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path, SerialConfig(exclusive=False)) as port:
        await port.configure(port.config.with_changes(low_latency=True, exclusive=True))
        assert driver.flags & system_calls.ASYNC_LOW_LATENCY
        assert peer.is_exclusive()
        await port.configure(port.config.with_changes(low_latency=False, exclusive=False))
        assert not driver.flags & system_calls.ASYNC_LOW_LATENCY
        assert not peer.is_exclusive()


async def test_7_closing_ends_a_break_and_wakes_waiting_calls(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    errors: list[BaseException] = []

    async def catch(call: Callable[[], Any]) -> None:
        try:
            await call()
        except Exception as exc:
            errors.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(catch, lambda: port.send_break(60))
        tasks.start_soon(catch, port.receive)
        await until(lambda: driver.breaking)
        await port.aclose()
    assert [type(error) for error in errors] == [SerialClosedError, SerialClosedError]
    assert not driver.breaking


async def test_8_exact_drain_can_be_cancelled(peer: PtyPeer, driver: EmulatedDriver) -> None:
    driver.output_queue = 5  # CTS has stopped the transmitter
    async with await open_serial_port(peer.path) as port:
        with anyio.move_on_after(0.01) as scope:
            await port.drain_exact()
        assert scope.cancelled_caught
        driver.output_queue = 0


def test_9_by_id_link_resolves_to_the_adapter(driver: EmulatedDriver, tmp_path: Path) -> None:
    timer = tmp_path / "sys/ttyUSB0/device/latency_timer"
    timer.parent.mkdir(parents=True)
    timer.write_text("16")
    node = tmp_path / "ttyUSB0"
    node.touch()
    link = tmp_path / "usb-FTDI_A5XK3RJT-if00-port0"
    link.symlink_to(node)
    LowLatency(0, str(link), sysfs=tmp_path / "sys").set(True)
    assert timer.read_text() == "1"
    info = port_info_for(str(link), tmp_path / "sys", tmp_path)
    assert info is not None
    assert info.name == "ttyUSB0"


def test_10_interface_is_read_and_absent_ports_are_not_listed(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    usb = sysfs.usb_device("1-1", idVendor="0403", idProduct="6010")
    interface = usb / "1-1:1.0"
    sysfs.add("ttyUSB0", interface / "ttyUSB0")
    (interface / "bInterfaceNumber").write_text("00\n")
    (interface / "interface").write_text("Dual RS232\n")
    sysfs.add("ttyS7", sysfs.devices / "platform/serial8250", type="0")
    (port,) = sysfs.ports()
    assert (port.name, port.interface) == ("ttyUSB0", "Dual RS232")


async def test_11_port_is_exclusive_and_its_holder_is_named(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path):
        assert peer.is_exclusive()
        with pytest.raises(PortBusyError, match="this very process"):
            await open_serial_port(peer.path)
        if os.geteuid() != 0:
            with pytest.raises(OSError, match="busy"):
                os.open(peer.path, os.O_RDWR | os.O_NOCTTY)
        holding = f"import fcntl, os; fcntl.flock(os.open({peer.path!r}, 2 | os.O_NOCTTY), 6)"
        other = subprocess.run([sys.executable, "-c", holding], capture_output=True, timeout=60)
        assert other.returncode != 0


async def test_12_settings_are_restored_and_damage_is_reported(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    found = peer.make_settings_odd()
    driver.counters["frame"] = 2
    async with await open_serial_port(peer.path, SerialConfig(mark_errors=True)) as port:
        assert peer.settings()[0] == termios.PARMRK
        assert (await port.error_counters()).framing_errors == 2
        assert await _marked(port, peer) == b"\xff"
    assert peer.settings() == found


async def _marked(port: SerialPort, peer: PtyPeer) -> bytes:
    peer.write(b"\xff")
    return (await port.receive_marked()).data


async def test_13_arguments_are_checked_before_anything_waits(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        for limit in (0, -1):
            with pytest.raises(ValueError, match="limit"):
                await port.receive_available(limit=limit)
        with pytest.raises(TypeError, match="writable"):
            await port.receive_into(b"read-only")  # type: ignore[arg-type]
        await port.send_buffer(memoryview(b"a-b-c-")[::2])
        assert await peer.read(3) == b"abc"


async def test_14_loop_runs_while_the_driver_does_not_answer(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    for request in (system_calls.TCSETS2, termios.TIOCMGET, termios.TIOCNXCL):
        stuck, answer = threading.Event(), threading.Event()

        def block(
            asked: int,
            request: int = request,
            stuck: threading.Event = stuck,
            answer: threading.Event = answer,
        ) -> None:
            if asked == request:
                stuck.set()
                assert answer.wait(60)

        async def use() -> None:
            async with await open_serial_port(peer.path) as port:
                await port.modem_lines()

        driver.on_request = block
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            await until(stuck.is_set)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()  # the loop runs while a driver call hangs
            answer.set()
        driver.on_request = lambda request: None
