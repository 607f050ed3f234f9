"""An instrument is read and set by Modbus, on a serial line and over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatMissingHardwareError,
    AlicatTimeoutError,
    AlicatValidationError,
    Capability,
    Gas,
    SerialSettings,
    Statistic,
    StatusCode,
    Unit,
    UnknownGasError,
)
from penstock.alicat.modbus import (
    MASS_FLOW_CONTROLLER_REGISTERS,
    MASS_FLOW_METER_REGISTERS,
    ModbusClient,
    ModbusExceptionError,
    ModbusFlowController,
    ModbusFlowMeter,
    ModbusProtocol,
    RtuFraming,
    open_modbus_controller,
    open_modbus_device,
)
from penstock.alicat.transport import ByteStreamTransport

from .instrument import Instrument, Line, RtuServer, TcpServer, on_pty, on_tcp

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0
UNITS = {"mass_flow": "SCCM", "mass_flow_setpt": "SCCM", "abs_press": "PSIA"}


@asynccontextmanager
async def rtu_on_pty(instrument: Instrument) -> AsyncIterator[ModbusFlowMeter]:
    async with on_pty(RtuServer(instrument)) as path:
        serial = SerialSettings(path, baudrate=115200)
        async with await open_modbus_device(
            path, serial=serial, timeout=TIMEOUT, units=UNITS
        ) as device:
            yield device


@asynccontextmanager
async def rtu_in_memory(instrument: Instrument) -> AsyncIterator[ModbusFlowMeter]:
    line = Line(RtuServer(instrument))
    async with await open_modbus_device(line, timeout=TIMEOUT, units=UNITS) as device:
        yield device
    assert line.closed


@asynccontextmanager
async def rtu_with_echo(instrument: Instrument) -> AsyncIterator[ModbusFlowMeter]:
    line = Line(RtuServer(instrument))
    line.echoes = True
    async with await open_modbus_device(line, timeout=TIMEOUT, units=UNITS) as device:
        yield device


@asynccontextmanager
async def tcp(instrument: Instrument) -> AsyncIterator[ModbusFlowMeter]:
    async with (
        on_tcp(TcpServer(instrument)) as address,
        await open_modbus_device(address, protocol="tcp", timeout=TIMEOUT, units=UNITS) as device,
    ):
        yield device


Opened = Callable[[Instrument], AbstractAsyncContextManager[ModbusFlowMeter]]
WAYS: dict[str, Opened] = {
    "rtu on a pty": rtu_on_pty,
    "rtu in memory": rtu_in_memory,
    "rtu with echo": rtu_with_echo,
    "tcp": tcp,
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def opened(request: pytest.FixtureRequest) -> Opened:
    way: Opened = request.param
    return way


def controller(device: ModbusFlowMeter) -> ModbusFlowController:
    assert isinstance(device, ModbusFlowController)
    return device


async def test_reading_has_all_values_and_their_units(opened: Opened) -> None:
    instrument = Instrument()
    async with opened(instrument) as device:
        instrument.put_float(1208, 12.5)
        reading = await device.poll()
    assert reading.values == {
        "Abs_Press": pytest.approx(14.62),
        "Flow_Temp": pytest.approx(21.89),
        "Volu_Flow": 0.0,
        "Mass_Flow": 12.5,
        "Mass_Flow_Setpt": 0.0,
        "Gas": "N2",
    }
    assert reading.units == {"Abs_Press": "PSIA", "Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM"}
    assert (reading.unit_id, reading.status) == ("1", frozenset())
    assert reading.get_statistic(Statistic.MASS_FLOW) == 12.5
    assert reading.requested_monotonic_ns <= reading.monotonic_ns
    assert [(field.name, field.unit) for field in device.field_schema()] == [
        ("Abs_Press", "PSIA"),
        ("Flow_Temp", None),
        ("Volu_Flow", None),
        ("Mass_Flow", "SCCM"),
        ("Mass_Flow_Setpt", "SCCM"),
        ("Gas", None),
    ]


async def test_setpoint_is_set_and_read_back(opened: Opened) -> None:
    instrument = Instrument()
    async with opened(instrument) as device:
        state = await controller(device).setpoint(120.1, "SCCM")
        assert state.accepted
        assert (state.unit, state.unit_label) == (Unit.SCCM, "SCCM")
        assert state.requested == state.current == pytest.approx(120.1)
        assert instrument.setpoint == pytest.approx(120.1)
        assert (await device.poll()).values["Mass_Flow"] == pytest.approx(120.1)
        instrument.ignores_setpoint = True
        assert not (await controller(device).setpoint(10.0)).accepted
        assert (await controller(device).setpoint()).requested == pytest.approx(120.1)


async def test_gas_is_chosen_by_its_name_or_number(opened: Opened) -> None:
    async with opened(Instrument()) as device:
        assert (await device.gas()).gas is Gas.N2
        state = await device.gas("Ar")
        assert (state.code, state.gas, state.label) == (1, Gas.AR, "Ar")
        assert (await device.poll()).values["Gas"] == "Ar"
        mix = await device.gas(240)
        assert (mix.code, mix.gas, mix.label) == (240, Gas.MIX_240, "Mix240")
        with pytest.raises(UnknownGasError):
            await device.gas("nothing")
        with pytest.raises(AlicatCommandRejectedError, match="does not take this argument"):
            await device.gas(300)


async def test_valves_are_held_and_let_go(opened: Opened) -> None:
    async with opened(Instrument()) as device:
        assert (await controller(device).hold_valves()).held
        assert StatusCode.HLD in (await device.poll()).status
        assert not (await controller(device).cancel_valve_hold()).held
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await controller(device).hold_valves_closed()
        assert (await controller(device).hold_valves_closed(confirm=True)).held


async def test_mixes_are_kept_and_forgotten(opened: Opened) -> None:
    instrument = Instrument()
    async with opened(instrument) as device:
        mix = await device.create_mix(240, {"N2": 78.5, "O2": 20, "Ar": 1.5})
        assert (mix.number, instrument.mixes) == (240, {240: {8: 7850, 11: 2000, 1: 150}})
        assert (await device.gas(240)).code == 240
        with pytest.raises(AlicatCommandRejectedError, match="a gas of the mix does not exist"):
            await device.create_mix(241, {"N2": 50, 220: 50})
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.delete_mix(240)
        await device.delete_mix(240, confirm=True)
        with pytest.raises(AlicatCommandRejectedError, match="no mix of this number"):
            await device.delete_mix(240, confirm=True)
    assert instrument.mixes == {}


async def test_impossible_mix_is_not_sent() -> None:
    instrument = Instrument()
    async with rtu_in_memory(instrument) as device:
        before = len(instrument.requests)
        for number, gases in [
            (235, {"N2": 50, "O2": 50}),
            (240, {"N2": 50, "O2": 49}),
            (240, {"N2": 100}),
            (240, {"N2": 49.999, "O2": 50.001}),
        ]:
            with pytest.raises(AlicatValidationError):
                await device.create_mix(number, gases)
        assert len(instrument.requests) == before


async def test_exhaust_needs_two_valves_and_a_confirmation() -> None:
    line = Line(RtuServer(Instrument()))
    async with await open_modbus_device(line, timeout=TIMEOUT) as device:
        with pytest.raises(AlicatMissingHardwareError, match="MULTI_VALVE"):
            await controller(device).exhaust(confirm=True)
    line = Line(RtuServer(Instrument()))
    async with await open_modbus_device(
        line, timeout=TIMEOUT, assume_capabilities=Capability.MULTI_VALVE
    ) as device:
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await controller(device).exhaust()
        assert (await controller(device).exhaust(confirm=True)).held


async def test_taring_tells_whether_it_was_executed(opened: Opened) -> None:
    instrument = Instrument()
    async with opened(instrument) as device:
        instrument.put_float(1208, 0.5)
        assert (await device.tare_flow()).reading.values["Mass_Flow"] == 0.0
        await device.tare_gauge_pressure()
        with pytest.raises(AlicatCommandRejectedError, match="does not have this feature"):
            await device.tare_absolute_pressure()


async def test_panel_is_locked_and_total_is_reset(opened: Opened) -> None:
    instrument = Instrument()
    async with opened(instrument) as device:
        await device.lock_display()
        await device.unlock_display()
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.totalizer_reset()
        await device.totalizer_reset(confirm=True)
    commands = [pdu[-4:] for pdu in instrument.requests if pdu[0] == 16]
    assert commands == [b"\0\7\0\1", b"\0\7\0\0", b"\0\5\0\0"]


async def test_every_status_bit_is_reported() -> None:
    instrument = Instrument()
    async with rtu_in_memory(instrument) as device:
        expected = {
            **dict.fromkeys((0, 1), StatusCode.TOV),
            **dict.fromkeys((2, 3), StatusCode.VOV),
            **dict.fromkeys((4, 5), StatusCode.MOV),
            6: StatusCode.POV,
            7: StatusCode.OVR,
            8: StatusCode.HLD,
            9: StatusCode.ADC,
            10: StatusCode.EXH,
            11: StatusCode.OPL,
            12: StatusCode.TMF,
        }
        for bit, code in expected.items():
            instrument.words[1201] = 1 << bit
            assert (await device.poll()).status == {code}
        instrument.words[1201] = 1 << 13
        assert (await device.poll()).unknown_status == {"ABORTED"}
        instrument.words[1201], instrument.words[1200] = 0, 1
        assert (await device.poll()).unknown_status == {"BIT16"}


@pytest.mark.parametrize(
    ("value", "unit", "match"),
    [
        (float("nan"), None, "finite"),
        (float("inf"), None, "finite"),
        (-1.0, None, "bidirectional"),
        (201.0, None, "limits"),
        (10.0, "SLPM", "in SCCM, not in SLPM"),
    ],
)
async def test_impossible_setpoint_is_not_sent(value: float, unit: str | None, match: str) -> None:
    instrument = Instrument()
    async with rtu_in_memory(instrument) as device:
        controller(device).limit_setpoint(high=200.0)
        before = len(instrument.requests)
        with pytest.raises(AlicatValidationError, match=match):
            await controller(device).setpoint(value, unit)
        assert len(instrument.requests) == before


async def test_unit_of_a_setpoint_must_have_been_stated() -> None:
    async with await open_modbus_device(Line(RtuServer(Instrument())), timeout=TIMEOUT) as device:
        with pytest.raises(AlicatValidationError, match="no unit was stated"):
            await controller(device).setpoint(1.0, "SCCM")
        assert (await controller(device).setpoint(1.0)).unit_label is None


async def test_bidirectional_controller_takes_negative_setpoints() -> None:
    line = Line(RtuServer(Instrument()))
    async with await open_modbus_device(
        line, timeout=TIMEOUT, assume_capabilities=Capability.BIDIRECTIONAL
    ) as device:
        assert (await controller(device).setpoint(-5.0)).requested == -5.0


async def test_map_without_setpoint_opens_a_meter() -> None:
    line = Line(RtuServer(Instrument()))
    async with await open_modbus_device(
        line, timeout=TIMEOUT, registers=MASS_FLOW_METER_REGISTERS
    ) as device:
        assert not isinstance(device, ModbusFlowController)
        assert "Mass_Flow_Setpt" not in (await device.poll()).values


async def test_unit_of_a_quantity_without_register_is_refused() -> None:
    line = Line(RtuServer(Instrument()))
    with pytest.raises(AlicatValidationError, match="no register"):
        await open_modbus_device(
            line, registers=MASS_FLOW_METER_REGISTERS, units={"mass_flow_setpt": "SCCM"}
        )
    assert line.closed


async def test_map_that_counts_from_zero_asks_other_addresses() -> None:
    instrument = Instrument()
    line = Line(RtuServer(instrument))
    registers = replace(MASS_FLOW_CONTROLLER_REGISTERS, counted_from=0)
    with pytest.raises(ModbusExceptionError, match="does not have these registers"):
        await open_modbus_device(line, timeout=TIMEOUT, registers=registers)
    assert instrument.requests == [bytes.fromhex("03 04b0 000d")]
    assert line.closed


async def test_maps_say_where_they_are_from() -> None:
    for registers in (MASS_FLOW_CONTROLLER_REGISTERS, MASS_FLOW_METER_REGISTERS):
        assert "manual" in registers.provenance
        assert "not captured" in registers.provenance


async def test_devices_share_a_line() -> None:
    line = Line(RtuServer(Instrument(1), Instrument(2)))
    async with ModbusClient(ByteStreamTransport(line), RtuFraming(), timeout=TIMEOUT) as client:
        first = await open_modbus_device(client, unit=1)
        second = await open_modbus_device(client, unit=2)
        await controller(second).setpoint(7.0)
        assert (await first.poll()).values["Mass_Flow"] == 0.0
        assert (await second.poll()).values["Mass_Flow"] == 7.0
        await first.close()
        assert client.is_open


async def test_nobody_there_is_a_timeout() -> None:
    line = Line(RtuServer(Instrument(2)))
    with pytest.raises(AlicatTimeoutError, match="unit 1"):
        await open_modbus_device(line, timeout=0.02)
    assert line.closed


async def test_port_that_does_not_open_is_told() -> None:
    with pytest.raises(AlicatConnectionError, match="does not exist"):
        await open_modbus_device("/dev/ttyNOWHERE")
    with pytest.raises(ValueError, match="ascii"):
        await open_modbus_device("/dev/ttyNOWHERE", protocol="ascii")
    assert ModbusProtocol("tcp") is ModbusProtocol.TCP


async def test_a_controller_is_opened_as_one_and_a_meters_map_is_refused_before() -> None:
    line = Line(RtuServer(Instrument()))
    async with await open_modbus_controller(line, timeout=TIMEOUT) as device:
        assert isinstance(device, ModbusFlowController)
    line = Line(RtuServer(Instrument()))
    with pytest.raises(AlicatConfigurationError, match=r"no setpoint.*open_modbus_device"):
        await open_modbus_controller(line, registers=MASS_FLOW_METER_REGISTERS)
    await line.aclose()
