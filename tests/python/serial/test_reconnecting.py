"""A reconnecting port: on ptys behind a link, and with several kinds of device identity."""

from __future__ import annotations

import os
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.serial import (
    Backoff,
    ConfigurationError,
    PortEvent,
    PortNotFoundError,
    ReconnectingSerialPort,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    _watching,
    open_serial_port,
)
from penstock.serial._port import reconnecting
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until
from tests.python.serial.reconnections import events_of, happened, quick
from tests.python.serial.sysfs_tree import Sysfs
from tests.python.serial.test_watching import announce, message, plug_in

pytestmark = pytest.mark.anyio


class Socket:
    """A socket to plug a device into: a link to a pty."""

    def __init__(self, folder: Path) -> None:
        self.link = folder / "usb-FTDI_A5XK3RJT-if00-port0"
        self.peer: PtyPeer | None = None

    def plug_in(self) -> PtyPeer:
        self.peer = PtyPeer()
        tty.setraw(self.peer._follower)  # a device does not echo
        temporary = self.link.with_suffix(".new")
        temporary.symlink_to(self.peer.path)
        temporary.replace(self.link)
        return self.peer

    def unplug(self) -> None:
        assert self.peer is not None
        self.link.unlink()
        self.peer.unplug()


@pytest.fixture
def socket(tmp_path: Path) -> Socket:
    return Socket(tmp_path)


def keeping(socket: Socket, **options: Any) -> ReconnectingSerialPort:
    return ReconnectingSerialPort(str(socket.link), backoff=quick(), **options)


async def test_stream_continues_after_replugging(socket: Socket) -> None:
    peer = socket.plug_in()
    async with keeping(socket) as port:
        await port.wait_connected()
        peer.write(b"one")
        assert await port.receive() == b"one"
        await port.send(b"x")
        assert await peer.read(1) == b"x"
        socket.unplug()
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                assert await port.receive() == b"two"

            tasks.start_soon(receive)
            await until(lambda: not port.is_connected)
            peer = socket.plug_in()
            peer.write(b"two")
        assert port.is_connected
        await port.send(b"y")
        assert await peer.read(1) == b"y"
        assert port.path == str(socket.link)


async def test_absent_device_is_waited_for(socket: Socket) -> None:
    async with keeping(socket) as port, events_of(port) as events:
        await happened(events, "failed", "failed")
        assert isinstance(events[0].error, PortNotFoundError)
        assert events[0].delay is not None
        assert port.port is None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, b"when you come")
            await anyio.wait_all_tasks_blocked()
            peer = socket.plug_in()
        assert await peer.read(13) == b"when you come"
        await port.wait_connected()
        await happened(events, "failed", "connected")


async def test_events_are_reported_in_order(socket: Socket) -> None:
    socket.plug_in()
    async with keeping(socket, receiving="fail") as port, events_of(port) as events:
        await port.wait_connected()
        socket.unplug()
        with pytest.raises(SerialDisconnectedError):
            await port.receive()
        socket.plug_in()
        await port.wait_connected()
        await happened(events, "connected", "disconnected", "connected")
        lost = next(event for event in events if event.kind == "disconnected")
        assert isinstance(lost.error, SerialDisconnectedError)
        assert lost.path == str(socket.link)


async def test_receiving_fail_reports_a_disconnect_once(socket: Socket) -> None:
    socket.plug_in()
    async with keeping(socket, receiving="fail") as port:
        await port.wait_connected()
        socket.unplug()
        with pytest.raises(SerialDisconnectedError):
            await port.send(b"lost")  # the sender detects it first
        with pytest.raises(SerialDisconnectedError):
            await port.receive()  # and the receiver also gets the error
        socket.plug_in().write(b"new")
        assert await port.receive() == b"new"


async def test_sending_fail_raises_at_once(socket: Socket) -> None:
    socket.plug_in()
    async with keeping(socket, sending="fail") as port:
        await port.wait_connected()
        socket.unplug()
        for _ in range(3):
            with pytest.raises(SerialDisconnectedError):
                await port.send(b"x")
        with pytest.raises(SerialDisconnectedError):
            await port.modem_lines()


async def test_settings_and_lines_are_restored_after_a_reconnect(socket: Socket) -> None:
    driver = EmulatedDriver()
    with driver.installed():
        socket.plug_in()
        async with keeping(socket, config=SerialConfig(baudrate=9600)) as port:
            await port.configure(SerialConfig(baudrate=19_200))
            await port.set_control_lines(rts=False, dtr=True)
            assert port.config.baudrate == 19_200
            socket.unplug()
            with pytest.raises(SerialDisconnectedError):
                await port.send(b"x")
            driver.lines = 0xFF
            peer = socket.plug_in()
            await port.wait_connected()
            assert peer.settings()[4] == peer.settings()[5] == termios.B19200
            lines = await port.control_lines()
            assert (lines.rts, lines.dtr) == (False, True)
            assert (await port.error_counters()).total_errors == 0
            await port.drain_exact()
            await port.reset_input_buffer()
            await port.reset_output_buffer()
            assert port.config.baudrate == 19_200


async def test_closing_ends_waiting_and_events(socket: Socket) -> None:
    port = keeping(socket)
    ends: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(SerialClosedError):
                await port.receive()
            ends.append("receive")

        async def listen() -> None:
            async for _ in port.events():
                pass
            ends.append("events")

        async with port:
            tasks.start_soon(receive)
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
    assert sorted(ends) == ["events", "receive"]
    await port.aclose()
    with pytest.raises(SerialClosedError):
        await port.send(b"x")


async def test_any_task_may_close_and_the_block_continues(socket: Socket) -> None:
    socket.plug_in()
    async with keeping(socket) as port:
        await port.wait_connected()
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(port.aclose)
        await anyio.lowlevel.checkpoint()  # nothing here is cancelled
        with pytest.raises(SerialClosedError):
            await port.receive()
    async with keeping(socket) as port:
        await port.wait_connected()  # the first one has closed it


async def test_cancelled_block_closes_the_port(socket: Socket) -> None:
    socket.plug_in()
    with anyio.CancelScope() as scope:
        async with keeping(socket) as port:
            await port.wait_connected()
            scope.cancel()
            await port.receive()
    assert scope.cancelled_caught
    async with keeping(socket) as port:
        await port.wait_connected()


async def test_connection_made_during_close_is_closed_without_an_error(
    socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SerialPort] = []
    opening_ports, closed = anyio.Event(), anyio.Event()

    async def open_late(*args: Any) -> SerialPort:
        if socket.peer is not None:
            opening_ports.set()
            with anyio.CancelScope(shield=True):
                await closed.wait()
                opened.append(await open_serial_port(*args))
            return opened[0]
        return await open_serial_port(*args)

    monkeypatch.setattr(reconnecting, "open_serial_port", open_late)
    async with keeping(socket) as port, aclosing(port.events()) as events:
        # A listener that handles an event and does not request the next one.
        assert (await anext(events)).kind == "failed"
        socket.plug_in()
        await opening_ports.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.aclose)
            await until(lambda: port._closed)
            closed.set()
    assert [found.is_open for found in opened] == [False]


async def test_error_of_the_block_propagates_unchanged(socket: Socket) -> None:
    socket.plug_in()
    with pytest.raises(KeyError):
        async with keeping(socket) as port:
            await port.wait_connected()
            raise KeyError


async def test_port_that_can_never_be_opened_raises_instead_of_waiting() -> None:
    async with ReconnectingSerialPort("gopher://lab:70") as port:
        for call in (port.wait_connected, port.receive, lambda: port.send(b"x"), port.modem_lines):
            with anyio.fail_after(60), pytest.raises(ConfigurationError, match="'gopher'"):
                await call()


async def test_misuse_is_reported() -> None:
    wrong: Any = "maybe"
    with pytest.raises(ValueError, match="name the device"):
        ReconnectingSerialPort()
    with pytest.raises(ValueError, match="sending must be 'wait' or 'fail', not 'maybe'"):
        ReconnectingSerialPort("/dev/x", sending=wrong)
    with pytest.raises(RuntimeError, match="inside 'async with'"):
        await ReconnectingSerialPort("/dev/x").send(b"")


# ---- with real discovery and watching ------------------------------------------------------------


async def test_kernel_message_ends_a_long_delay(
    socket: Socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages arrive over netlink; only the /sys and /dev trees belong to the test."""
    sysfs = Sysfs(tmp_path)
    plug_in(sysfs, "ttyUSB0")
    listening = anyio.Event()

    async def watch() -> AsyncIterator[PortEvent]:
        trees = _watching.watch_trees(existing=True, sysfs=sysfs.tty, dev=sysfs.dev)
        async with aclosing(trees) as events:
            async for event in events:
                if event.port.name == "ttyUSB0":  # it existed before
                    listening.set()
                else:
                    yield event

    monkeypatch.setattr(_watching, "_RESCAN_INTERVAL_S", 3600)
    monkeypatch.setattr(_watching, "_RESCAN_WITHOUT_EVENTS_S", 3600)
    monkeypatch.setattr(reconnecting, "watch_serial_ports", watch)
    backoff = Backoff(first=3600, longest=3600)
    async with ReconnectingSerialPort(str(socket.link), backoff=backoff) as port:
        async with events_of(port) as events:
            await until(lambda: events)  # an attempt has failed; the next is an hour away
            await listening.wait()
        peer = socket.plug_in()
        name = f"ttyUSB{os.getpid()}"
        plug_in(sysfs, name, "B2")
        announce(message("add", name))
        with anyio.fail_after(60):
            await port.wait_connected()
        peer.write(b"back")
        assert await port.receive() == b"back"
        assert events[0].kind == "failed"


# ---- device identity -----------------------------------------------------------------------------


# ---- delays --------------------------------------------------------------------------------------
