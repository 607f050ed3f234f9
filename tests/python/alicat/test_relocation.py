"""An instrument that gets another unit id or another baud rate is followed there."""

from __future__ import annotations

import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatManager,
    AlicatProtocolClient,
    AlicatTimeoutError,
    AlicatValidationError,
    ByteStreamTransport,
    Device,
    Transport,
    open_device,
)

from .opened import TIMEOUT, events_of, opened
from .scripted_bus import ScriptedBus, controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio


def renameable(unit: Wired, bus: ScriptedBus) -> None:
    """Have the unit take another letter when it is told to."""

    def rename(command: bytes) -> None:
        del bus.units[unit.unit_id]
        unit.unit_id = command[-1:]
        bus.units[unit.unit_id] = unit

    unit.replies[b"@ *"] = rename


class TestUnitId:
    async def test_instrument_is_renamed_and_served_under_its_new_letter(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        renameable(unit, bus)
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.change_unit_id("B")
        before = device.session.revision
        await device.change_unit_id("B", confirm=True)
        assert (device.unit_id, device.info.unit_id) == ("B", "B")
        assert (await device.poll()).unit_id == "B"
        assert (await device.setpoint(5)).unit_id == "B"
        assert device.session.revision > before
        assert events[-2].message == "its unit id was A and is B"

    async def test_letter_of_a_neighbour_is_refused(self) -> None:
        device, bus, _ = await opened(controller("A"), controller("B"))
        with pytest.raises(AlicatValidationError, match="answers as unit B already"):
            await device.change_unit_id("B", confirm=True)
        assert b"A@ B" not in bus.commands
        assert (await device.poll()).unit_id == "A"

    async def test_instrument_that_keeps_its_letter_is_served_under_it(self) -> None:
        device, _, _ = await opened(controller())  # it ignores the command
        with pytest.raises(AlicatTimeoutError):
            await device.change_unit_id("B", confirm=True)
        assert device.unit_id == "A"
        assert (await device.poll()).unit_id == "A"

    async def test_manager_serves_a_renamed_device_and_closes_its_port(self) -> None:
        unit = controller()
        bus = ScriptedBus(unit)
        manager = AlicatManager()
        device = await manager.add("fuel", bus, timeout=TIMEOUT)
        renameable(unit, bus)
        before = manager.revision
        await device.change_unit_id("C", confirm=True)
        assert manager.revision > before
        assert manager.device_facts("fuel")["unit_id"] == "C"
        assert (await manager.poll())["fuel"].ok
        await manager.close()
        assert bus.closed


class Speeds:
    """A port whose instrument is heard at its own baud rate only."""

    def __init__(self, unit: Wired, *, follows: bool = True) -> None:
        self.unit = unit
        self.baudrate = 19200
        self.opened: list[int] = []
        self.buses: list[ScriptedBus] = []

        def change(command: bytes) -> bytes:
            if follows:
                self.baudrate = int(command[4:])
            return b"A " + command[4:]

        unit.replies[b"NCB *"] = change

    async def open_at(self, baudrate: int) -> Transport:
        self.opened.append(baudrate)
        bus = ScriptedBus(*[self.unit] if baudrate == self.baudrate else [])
        self.buses.append(bus)
        return ByteStreamTransport(bus, label="wire", baudrate=baudrate)

    async def device(self) -> Device:
        client = AlicatProtocolClient(
            await self.open_at(19200), default_timeout=TIMEOUT, reopen_at=self.open_at
        )
        return await open_device(client, timeout=TIMEOUT)


class TestBaudRate:
    async def test_port_follows_the_instrument(self) -> None:
        speeds = Speeds(controller())
        device = await speeds.device()
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.change_baud_rate(115200)
        events = events_of(device)
        await device.change_baud_rate(115200, confirm=True)
        assert speeds.opened == [19200, 115200]
        assert speeds.buses[0].closed
        assert (await device.poll()).unit_id == "A"
        assert device.client.transport.baudrate == 115200
        assert device.client.statistics.reconnects == 0
        assert events[-1].message == "its baud rate was 19200 and is 115200"

    async def test_instrument_that_stays_is_served_at_its_old_rate(self) -> None:
        speeds = Speeds(controller(), follows=False)
        device = await speeds.device()
        with pytest.raises(AlicatCommandRejectedError, match="still uses 19200 baud"):
            await device.change_baud_rate(115200, confirm=True)
        assert speeds.opened == [19200, 115200, 19200]
        assert (await device.poll()).unit_id == "A"

    async def test_answer_that_is_lost_is_no_failure(self) -> None:
        speeds = Speeds(controller())
        device = await speeds.device()
        speeds.buses[0].drop_next()
        await device.change_baud_rate(38400, confirm=True)
        assert (await device.poll()).unit_id == "A"

    async def test_instrument_that_is_gone_is_told(self) -> None:
        speeds = Speeds(controller())
        device = await speeds.device()
        speeds.unit.replies[b"NCB *"] = lambda command: setattr(speeds, "baudrate", 1)
        with pytest.raises(AlicatConnectionError, match="neither at that rate nor at 19200"):
            await device.change_baud_rate(38400, confirm=True)

    async def test_stream_that_was_handed_in_cannot_follow_so_nothing_is_sent(self) -> None:
        device, bus, _ = await opened(controller())
        with pytest.raises(AlicatConfigurationError, match="by the path of its port"):
            await device.change_baud_rate(38400, confirm=True)
        assert bus.commands == []
