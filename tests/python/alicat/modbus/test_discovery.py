"""Units are found by their Modbus numbers, and their families by their registers."""

from __future__ import annotations

import anyio
import pytest

from penstock.alicat import AlicatConnectionError, AlicatTimeoutError, AlicatValidationError
from penstock.alicat.modbus import (
    FAMILIES,
    ModbusDiscoveryResult,
    find_modbus_devices,
    open_modbus_device,
    registers_of_family,
)
from penstock.alicat.sync import find_modbus_devices as find_without_loop
from penstock.sim import (
    BasisController,
    BasisMeter,
    Bus,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    ModbusRtuFraming,
    ModbusTcpFraming,
    ModbusUnit,
    PressureController,
    PressureMeter,
    open_pty,
    open_tcp,
)

pytestmark = pytest.mark.anyio

UNITS = (
    (MassFlowController("A"), "mass-flow-controller"),
    (MassFlowMeter("B"), "mass-flow-meter"),
    (LiquidController("C"), "liquid-controller"),
    (LiquidMeter("D"), "liquid-meter"),
    (PressureController("E"), "pressure-controller"),
    (PressureMeter("F"), "pressure-meter"),
    (CoriolisMeter("G"), "coda-meter"),
    (BasisController("H", serial_number="B4711"), "basis-controller"),
    (BasisMeter("I"), "basis-meter"),
)


def bus_of_all(*, tcp: bool = False) -> Bus:
    stations = [ModbusUnit(unit, number) for number, (unit, _) in enumerate(UNITS, start=1)]
    framing = ModbusTcpFraming() if tcp else ModbusRtuFraming()
    return Bus(stations, baudrate=None if tcp else 115200, turnaround=0.0, framing=framing)


async def test_every_family_of_a_line_is_told() -> None:
    seen: list[ModbusDiscoveryResult] = []
    async with open_pty(bus_of_all()) as port:
        results = await find_modbus_devices(
            [port], units=range(1, 10), baudrates=[115200], timeout=20, progress=seen.append
        )
        identities = [result.identity for result in results if result.identity is not None]
        assert [identity.family for identity in identities] == [family for _, family in UNITS]
        assert [identity.serial for identity in identities[7:]] == ["B4711", "B123456"]
        assert seen == list(results)
        # What was found opens with the map that was found.
        coda = identities[6].registers
        assert coda is not None
        async with await open_modbus_device(port, unit=7, registers=coda, timeout=20) as device:
            assert (await device.poll()).unit_id == "7"


async def test_units_behind_a_modbus_tcp_server_are_found() -> None:
    async with open_tcp(bus_of_all(tcp=True)) as number:
        (result,) = await find_modbus_devices(
            [f"tcp://127.0.0.1:{number}"], units=[3], protocol="tcp", timeout=20
        )
    assert result.identity is not None
    assert (result.unit, result.identity.family) == (3, "liquid-controller")


async def test_number_that_does_not_answer_is_a_result() -> None:
    bus = Bus([ModbusUnit(MassFlowController("A"), 1)], baudrate=115200, framing=ModbusRtuFraming())
    async with open_pty(bus) as port:
        (result,) = await find_modbus_devices([port], units=[2], baudrates=[115200], timeout=0.05)
    assert not result.ok
    assert isinstance(result.error, AlicatTimeoutError)
    (nowhere,) = await find_modbus_devices(["/dev/ttyNOWHERE"])
    assert isinstance(nowhere.error, AlicatConnectionError)


async def test_search_without_a_loop_finds_the_same() -> None:
    async with open_tcp(bus_of_all(tcp=True)) as number:
        port = f"tcp://127.0.0.1:{number}"
        found = await anyio.to_thread.run_sync(
            lambda: find_without_loop([port], units=[7, 8], protocol="tcp", timeout=20)
        )
    assert [result.identity.family for result in found if result.identity is not None] == [
        "coda-meter",
        "basis-controller",
    ]


@pytest.mark.parametrize("units", [[0], [248], [1, -1]])
async def test_numbers_out_of_range_are_refused(units: list[int]) -> None:
    with pytest.raises(AlicatValidationError, match="it is 1 to 247"):
        await find_modbus_devices(["/dev/ttyNOWHERE"], units=units)


def test_families_have_register_maps() -> None:
    for family in FAMILIES:
        decimals = 1 if family.startswith("basis") else None
        controls = registers_of_family(family, decimals=decimals).setpoint is not None
        assert controls == (family.endswith("controller") and not family.startswith("basis"))
    with pytest.raises(AlicatValidationError, match="not a family of Modbus instruments"):
        registers_of_family("coda")
    with pytest.raises(AlicatValidationError, match="needs the decimal places"):
        registers_of_family("basis-meter")
    with pytest.raises(AlicatValidationError, match="leave them out"):
        registers_of_family("coda-meter", decimals=1)
