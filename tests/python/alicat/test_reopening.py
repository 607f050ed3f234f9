"""A line that was lost is opened again, and the instrument on it must be the same one."""

from __future__ import annotations

import anyio
import pytest

from penstock.alicat import (
    AlicatConnectionError,
    AlicatIdentityError,
    AlicatProtocolClient,
    AlicatTimeoutError,
    ByteStreamTransport,
    EventKind,
    FlowController,
    SessionState,
    Transport,
    open_device,
)

from .captures import MADE_10V20
from .opened import TIMEOUT, events_of, opened
from .scripted_bus import ScriptedBus, controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio


class Lines:
    """The lines that a client gets one after another."""

    def __init__(self, *buses: ScriptedBus | Exception) -> None:
        self.buses = list(buses)
        self.opened = 0

    async def open(self) -> Transport:
        self.opened += 1
        bus = self.buses.pop(0)
        if isinstance(bus, Exception):
            raise bus
        return ByteStreamTransport(bus, label="line")

    async def client(self) -> AlicatProtocolClient:
        return AlicatProtocolClient(await self.open(), default_timeout=TIMEOUT, reconnect=self.open)


def with_serial_number(unit: Wired, serial: bytes) -> Wired:
    unit.replies[b"??M*"] = [row.replace(b"521641", serial) for row in MADE_10V20]
    return unit


class TestReturning:
    async def test_instrument_that_comes_back_is_asked_again(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        events = events_of(device)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await device.poll()
        assert device.session.state is SessionState.STALE
        assert (await device.poll()).values["Mass_Flow"] == 2.0  # one frame proved the format
        assert device.session.state is SessionState.OPERATIONAL
        assert [event.kind for event in events] == [
            EventKind.CONNECTION_LOST,
            EventKind.RECONNECTED,
        ]
        assert device.client.statistics.reconnects == 1
        assert first.closed

    async def test_another_instrument_in_its_place_is_neither_polled_nor_set(self) -> None:
        first = ScriptedBus(controller())
        second = ScriptedBus(with_serial_number(controller(), b"999999"))
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        assert isinstance(device, FlowController)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        with pytest.raises(AlicatIdentityError, match="serial number 999999, not 521641"):
            await device.setpoint(10)
        assert second.commands == [b"AVE", b"A??M*"]
        with pytest.raises(AlicatConnectionError, match="tried again in"):
            await device.poll()
        assert second.commands == [b"AVE", b"A??M*"]

    async def test_command_is_not_sent_to_a_line_that_was_opened_for_another_device(self) -> None:
        first, second = ScriptedBus(controller("A"), controller("B")), ScriptedBus(controller("B"))
        client = await Lines(first, second).client()
        one = await open_device(client, unit_id="A", timeout=TIMEOUT)
        other = await open_device(client, unit_id="B", timeout=TIMEOUT)
        assert isinstance(one, FlowController)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await other.poll()
        await other.poll()
        with pytest.raises(AlicatTimeoutError, match="no instrument answers as unit A"):
            await one.setpoint(10)
        assert not any(command.startswith(b"ALS") for command in second.commands)

    async def test_line_that_cannot_be_opened_is_not_tried_at_every_poll(self) -> None:
        first = ScriptedBus(controller())
        lines = Lines(first, OSError("no such port"))
        device = await open_device(await lines.client(), timeout=TIMEOUT)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await device.poll()
        with pytest.raises(AlicatConnectionError, match="no such port"):
            await device.poll()
        for _ in range(3):
            with pytest.raises(AlicatConnectionError, match="tried again in"):
                await device.poll()
        assert lines.opened == 2

    async def test_device_that_was_given_an_open_stream_stays_lost(self) -> None:
        device, bus, _ = await opened(controller())
        bus.lost = OSError("unplugged")
        for _ in range(2):
            with pytest.raises(AlicatConnectionError, match="open the device again"):
                await device.poll()

    async def test_question_for_an_earlier_line_is_not_sent(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        client = await Lines(first, second).client()
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await client.query_line(b"AVE\r")
        await client.reopen()
        with pytest.raises(AlicatConnectionError, match="reopened"):
            await client.exchange(b"ALS 10\r", bytes, generation=0)
        assert second.commands == []

    async def test_closed_client_is_not_opened_again(self) -> None:
        first = ScriptedBus(controller())
        lines = Lines(first)
        client = await lines.client()
        await client.aclose()
        with pytest.raises(AlicatConnectionError, match="closed"):
            await client.reopen()
        assert lines.opened == 1

    async def test_unit_that_was_silent_identifies_itself_before_it_is_asked_again(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        answering = bus.units.pop(b"A")
        for _ in range(3):
            with pytest.raises(AlicatTimeoutError):
                await device.poll()
        assert [event.kind for event in events] == [EventKind.CONNECTION_LOST]
        bus.units[b"A"] = answering
        bus.commands.clear()
        await device.poll()
        assert bus.commands[0] == b"AVE"
        assert [event.kind for event in events][-1] is EventKind.RECONNECTED

    async def test_two_tasks_have_a_returning_instrument_identified_once(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(device.poll)
        assert second.commands.count(b"AVE") == 1
