"""A reconnecting port finds its device again by its identity, and waits longer each time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    Backoff,
    PortEvent,
    PortInfo,
    ReconnectingSerialPort,
)
from penstock.serial._devices import open as open_module
from penstock.serial._port import reconnecting
from tests.python.serial.pty_peer import PtyPeer, until
from tests.python.serial.reconnections import events_of, happened, quick

pytestmark = pytest.mark.anyio


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
