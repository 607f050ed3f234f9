"""Modbus devices are recorded as others are."""

from __future__ import annotations

import pytest

from penstock.alicat import AlicatTimeoutError, AlicatValidationError
from penstock.alicat.modbus import (
    ModbusClient,
    ModbusFlowMeter,
    ModbusSource,
    RtuFraming,
    open_modbus_device,
)
from penstock.alicat.transport import ByteStreamTransport
from penstock.record import InMemorySink, pipe, record
from tests.python.record.instruments import HandClock

from .instrument import Instrument, Line, RtuServer

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0
UNITS = {"mass_flow": "SCCM"}


async def devices_on(line: Line, *units: int) -> list[ModbusFlowMeter]:
    client = ModbusClient(ByteStreamTransport(line), RtuFraming(), timeout=TIMEOUT)
    return [await open_modbus_device(client, unit=unit, units=UNITS) for unit in units]


async def test_devices_are_recorded_with_their_fields_and_units() -> None:
    first, second = Instrument(1), Instrument(2)
    first.put_float(1208, 10.0)
    second.put_float(1208, 20.0)
    fuel, air = await devices_on(Line(RtuServer(first, second)), 1, 2)
    source = ModbusSource({"fuel": fuel, "air": air})
    sink = InMemorySink()
    async with record(source, rate_hz=1, duration=2, clock=HandClock()) as recording:
        units = {field.name: field.unit for field in recording.schema.fields}
        await pipe(recording, sink)
    found = [(s.device, s.unit_id, s.values["Mass_Flow"], s.values["Gas"]) for s in sink.samples]
    assert found == [("fuel", "1", 10.0, "N2"), ("air", "2", 20.0, "N2")] * 2
    assert (units["Mass_Flow"], units["Gas"]) == ("SCCM", None)


async def test_devices_of_one_line_are_one_group() -> None:
    fuel, air = await devices_on(Line(RtuServer(Instrument(1), Instrument(2))), 1, 2)
    (purge,) = await devices_on(Line(RtuServer(Instrument(1))), 1)
    source = ModbusSource({"fuel": fuel, "purge": purge, "air": air})
    assert source.poll_groups() == (("fuel", "air"), ("purge",))
    results = await source.poll()
    assert list(results) == ["fuel", "purge", "air"]
    assert all(result.ok for result in results.values())
    assert list(await source.poll(["air"])) == ["air"]


async def test_device_that_is_silent_is_a_failed_result() -> None:
    line = Line(RtuServer(Instrument(1), Instrument(2)))
    client = ModbusClient(
        ByteStreamTransport(line), RtuFraming(), timeout=0.5, late_reply_window=0.01
    )
    fuel = await open_modbus_device(client, unit=1)
    air = await open_modbus_device(client, unit=2)
    line.hold_next = 1
    results = await ModbusSource({"fuel": fuel, "air": air}).poll()
    assert isinstance(results["fuel"].error, AlicatTimeoutError)
    assert results["air"].ok


async def test_source_tells_what_it_knows_of_its_devices() -> None:
    (fuel,) = await devices_on(Line(RtuServer(Instrument(7))), 7)
    source = ModbusSource({"fuel": fuel}, source_id="lab")
    assert (source.source_id, source.names, source.revision) == ("lab", ("fuel",), 0)
    assert source.device_facts("fuel")["unit_id"] == "7"
    assert "manual" in source.device_facts("fuel")["registers"]
    assert source.field_schemas()["fuel"] == fuel.field_schema()
    with pytest.raises(AlicatValidationError, match="fuel"):
        await source.poll(["air"])
    with pytest.raises(AlicatValidationError, match="at least one"):
        ModbusSource({})
