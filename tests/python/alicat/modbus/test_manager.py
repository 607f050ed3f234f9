"""Instruments that are asked by Modbus, beside others in one manager."""

from __future__ import annotations

import pytest

from penstock.alicat import (
    AlicatManager,
    AlicatTimeoutError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    Commands,
    ErrorPolicy,
)
from penstock.alicat.commands import GasSelectRequest
from penstock.alicat.modbus import ModbusFlowController, open_modbus_device
from penstock.record import InMemorySink, pipe, record
from penstock.sim import (
    Bus,
    MassFlowController,
    MemoryStream,
    ModbusRtuFraming,
    ModbusUnit,
    open_memory,
    open_pty,
)
from tests.python.record.instruments import HandClock

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0


def modbus_bus(*letters: str) -> Bus:
    units = [ModbusUnit(MassFlowController(x), n) for n, x in enumerate(letters, start=1)]
    return Bus(units, baudrate=None, turnaround=0.0, framing=ModbusRtuFraming())


def ascii_bus(*letters: str) -> Bus:
    return Bus([MassFlowController(x) for x in letters], baudrate=None, turnaround=0.0)


async def test_both_kinds_are_polled_and_recorded_together() -> None:
    async with (
        open_pty(modbus_bus("A", "B")) as path,
        open_memory(ascii_bus("A")) as stream,
        AlicatManager() as manager,
    ):
        fuel = await manager.add_modbus("fuel", path, timeout=TIMEOUT)
        await manager.add_modbus("air", path, unit=2, timeout=TIMEOUT, rate_hz=5.0)
        await manager.add("purge", stream, timeout=TIMEOUT)
        assert isinstance(fuel, ModbusFlowController)
        assert manager.get_modbus("fuel") is fuel
        assert manager.names == ("fuel", "air", "purge")
        assert manager.poll_groups() == (("fuel", "air"), ("purge",))
        assert manager.rates() == {"air": 5.0}
        assert manager.device_facts("air")["unit_id"] == "2"
        assert list(manager.utilisation(10.0)) == []
        results = await manager.poll()
        assert [result.value.unit_id for result in results.values()] == ["1", "2", "A"]
        sink = InMemorySink()
        async with record(manager, rate_hz=1, duration=1, clock=HandClock()) as recording:
            await pipe(recording, sink)
        assert {"fuel", "purge"} <= {sample.device for sample in sink.samples}
        before = manager.revision
        await manager.remove("fuel")
        assert manager.revision > before
        assert list(await manager.poll()) == ["air", "purge"]


async def test_commands_of_the_text_protocol_fail_for_modbus_alone() -> None:
    async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        await manager.add_modbus("fuel", MemoryStream(modbus_bus("A")), timeout=TIMEOUT)
        await manager.add("purge", MemoryStream(ascii_bus("A")), timeout=TIMEOUT)
        results = await manager.execute(
            Commands.GAS_SELECT, {"fuel": GasSelectRequest(), "purge": GasSelectRequest()}
        )
        assert isinstance(results["fuel"].error, AlicatUnsupportedCommandError)
        assert results["purge"].ok
        with pytest.raises(AlicatValidationError, match="use get_modbus"):
            manager.get("fuel")
        with pytest.raises(AlicatValidationError, match="use get"):
            manager.get_modbus("purge")


async def test_a_port_has_one_protocol() -> None:
    async with open_pty(modbus_bus("A")) as path, AlicatManager() as manager:
        await manager.add_modbus("fuel", path, timeout=TIMEOUT)
        with pytest.raises(AlicatValidationError, match="is open for Modbus"):
            await manager.add("purge", path, unit_id="B", timeout=TIMEOUT)
        with pytest.raises(AlicatValidationError, match="is already held as 'fuel'"):
            await manager.add_modbus("air", path, timeout=TIMEOUT)
        with pytest.raises(AlicatValidationError, match="the name 'fuel' is taken"):
            await manager.add_modbus("fuel", path, unit=2)
    async with open_pty(ascii_bus("A")) as path, AlicatManager() as manager:
        await manager.add("purge", path, timeout=TIMEOUT)
        with pytest.raises(AlicatValidationError, match="is open for the text protocol"):
            await manager.add_modbus("fuel", path)


async def test_nothing_is_held_when_opening_fails() -> None:
    stream = MemoryStream(modbus_bus("A"))
    async with AlicatManager() as manager:
        with pytest.raises(AlicatTimeoutError):
            await manager.add_modbus("fuel", stream, unit=7, timeout=0.05)
        assert manager.names == ()
        with pytest.raises(AlicatValidationError, match="rate_hz"):
            await manager.add_modbus("fuel", MemoryStream(modbus_bus("A")), rate_hz=0.0)


async def test_device_that_was_opened_elsewhere_stays_open() -> None:
    device = await open_modbus_device(MemoryStream(modbus_bus("A")), timeout=TIMEOUT)
    async with device:
        async with AlicatManager() as manager:
            assert await manager.add_modbus("fuel", device) is device
            assert (await manager.poll())["fuel"].ok
        assert (await device.poll()).unit_id == "1"
