"""A reconnecting port: on ptys behind a link, and with several kinds of device identity."""

from __future__ import annotations

import os
import random
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    Backoff,
    ConfigurationError,
    ConnectionEvent,
    PortEvent,
    PortInfo,
    PortNotFoundError,
    ReconnectingSerialPort,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    _watching,
    open_serial_port,
)
from penstock.serial._devices import open as open_module
from penstock.serial._port import reconnecting
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until
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


def quick() -> Backoff:
    return Backoff(first=0.001, longest=0.01)


def keeping(socket: Socket, **options: Any) -> ReconnectingSerialPort:
    return ReconnectingSerialPort(str(socket.link), backoff=quick(), **options)


@asynccontextmanager
async def events_of(port: ReconnectingSerialPort) -> AsyncIterator[list[ConnectionEvent]]:
    """Collect the connection events of ``port`` inside the ``with``."""
    events: list[ConnectionEvent] = []

    async def listen() -> None:
        async for event in port.events():
            events.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        yield events
        tasks.cancel_scope.cancel()


async def happened(events: list[ConnectionEvent], *kinds: str) -> None:
    """Wait until these events have arrived in this order, possibly with others in between."""
    with anyio.fail_after(30):
        while True:
            rest = iter([event.kind for event in events])
            if all(kind in rest for kind in kinds):
                return
            await anyio.lowlevel.checkpoint()


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


class Computer:
    """The devices that discovery finds: name -> serial number, each a pty."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ports: list[PortInfo] = []
        self.send, self.events = anyio.create_memory_object_stream[PortEvent](10)

        async def find(**wanted: Any) -> PortInfo | None:
            for port in self.ports:
                if all(value in (None, getattr(port, name)) for name, value in wanted.items()):
                    return port
            return None

        async def watch() -> AsyncIterator[PortEvent]:
            async for event in self.events:
                yield event

        async def listed() -> list[PortInfo]:
            return self.ports

        monkeypatch.setattr(reconnecting, "find_serial_port", find)
        monkeypatch.setattr(reconnecting, "list_serial_ports", listed)
        monkeypatch.setattr(reconnecting, "watch_serial_ports", watch)
        monkeypatch.setattr(
            open_module,
            "port_info_for",
            lambda path: next((port for port in self.ports if port.device == path), None),
        )

    def plug_in(self, serial_number: str | None, pid: int = 0x6001) -> PtyPeer:
        peer = PtyPeer()
        port = PortInfo(
            device=peer.path,
            description="adapter",
            vid=0x0403,
            pid=pid,
            serial_number=serial_number,
        )
        self.ports.append(port)
        self.send.send_nowait(PortEvent("added", port))
        return peer

    def unplug(self, peer: PtyPeer) -> None:
        (port,) = [port for port in self.ports if port.device == peer.path]
        self.ports.remove(port)
        self.send.send_nowait(PortEvent("removed", port))


@pytest.fixture
async def computer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Computer]:
    machine = Computer(monkeypatch)
    yield machine
    machine.send.close()
    machine.events.close()


async def test_same_device_is_found_at_another_path(computer: Computer) -> None:
    with computer.plug_in("A1") as first:
        async with ReconnectingSerialPort(first.path, backoff=quick()) as port:
            await port.wait_connected()
            computer.unplug(first)
            with computer.plug_in("B2"), computer.plug_in("A1") as again:
                again.write(b"me")
                assert await port.receive() == b"me"
                assert port.path == again.path


async def test_device_is_found_by_its_serial_number(computer: Computer) -> None:
    with computer.plug_in("B2"), computer.plug_in("A1") as device:
        async with ReconnectingSerialPort(vid=0x0403, serial_number="A1", backoff=quick()) as port:
            device.write(b"here")
            assert await port.receive() == b"here"


async def test_absent_serial_number_is_named_in_the_event(computer: Computer) -> None:
    async with (
        ReconnectingSerialPort(serial_number="C3", backoff=quick()) as port,
        events_of(port) as events,
    ):
        await happened(events, "failed")
        assert "serial_number=C3 is not plugged in" in str(events[0].error)


async def test_other_device_at_the_same_path_is_not_opened(computer: Computer) -> None:
    with computer.plug_in(None) as device:
        async with (
            ReconnectingSerialPort(device.path, backoff=quick()) as port,
            events_of(port) as events,
        ):
            await port.wait_connected()
            (known,) = computer.ports
            computer.ports = [PortInfo(device=device.path, description="printer", vid=1, pid=2)]
            computer.send.send_nowait(PortEvent("removed", known))
            await happened(events, "disconnected", "failed")
            assert "is printer now" in str([e for e in events if e.kind == "failed"][-1].error)
            computer.ports = [known]
            await port.wait_connected()


async def test_plugging_in_ends_a_long_delay(computer: Computer) -> None:
    delays: list[float] = []

    def longest(low: float, high: float) -> float:
        delays.append(high)
        return 1

    slow = Backoff(first=1000, longest=1000, uniform=longest)
    async with ReconnectingSerialPort(serial_number="A1", backoff=slow) as port:
        await until(lambda: delays)
        with computer.plug_in("A1"), anyio.fail_after(30):
            await port.wait_connected()


async def test_idle_port_detects_its_removal(computer: Computer) -> None:
    with computer.plug_in("A1") as device:
        async with (
            ReconnectingSerialPort(device.path, backoff=quick()) as port,
            events_of(port) as events,
        ):
            await port.wait_connected()
            computer.unplug(device)
            await happened(events, "disconnected")
            assert not port.is_connected


async def test_delay_grows_after_short_connections() -> None:
    delays: list[float] = []

    def longest(low: float, high: float) -> float:
        delays.append(high)
        return 1

    connections = 0

    async def leave(stream: anyio.abc.SocketStream) -> None:
        nonlocal connections
        connections += 1
        await stream.aclose()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, leave)
        url = f"socket://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        backoff = Backoff(first=0.001, longest=1000, uniform=longest)
        async with ReconnectingSerialPort(url, backoff=backoff) as port:
            with anyio.CancelScope() as scope:

                async def end_after_a_few() -> None:
                    await until(lambda: connections >= 6)
                    scope.cancel()

                tasks.start_soon(end_after_a_few)
                await port.receive()
        tasks.cancel_scope.cancel()
    assert len(delays) >= connections - 1
    assert backoff.next_delay() >= 0.001 * 2 ** (connections - 1)


# ---- delays --------------------------------------------------------------------------------------


@given(
    st.floats(0.001, 10),
    st.floats(1, 1000),
    st.floats(0, 0.9),
    st.integers(1, 200),
    st.randoms(use_true_random=False),
)
def test_delays_grow_to_the_longest_with_jitter(
    first: float, factor: float, jitter: float, count: int, chance: random.Random
) -> None:
    backoff = Backoff(first=first, longest=first * factor, jitter=jitter, uniform=chance.uniform)
    for attempt in range(count):
        delay = backoff.next_delay()
        ideal = min(first * 2.0**attempt, backoff.longest)
        assert delay <= backoff.longest
        assert ideal * (1 - jitter) * 0.999 <= delay <= ideal * (1 + jitter) * 1.001
    backoff.reset()
    assert backoff.next_delay() <= first * (1 + jitter) * 1.001


@pytest.mark.parametrize(
    "wrong",
    [{"first": 0}, {"first": 2, "longest": 1}, {"jitter": 1}, {"longest": float("inf")}],
)
def test_invalid_delays_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Backoff(**wrong)
