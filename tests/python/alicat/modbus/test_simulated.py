"""The client against simulated instruments: every family, on a line, over TCP and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatError,
    AlicatIdentityError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    Gas,
    SerialSettings,
    Statistic,
    StatusCode,
)
from penstock.alicat.modbus import (
    CODA_METER_REGISTERS,
    MASS_FLOW_CONTROLLER_REGISTERS,
    MASS_FLOW_METER_REGISTERS,
    LoopGains,
    ModbusClient,
    ModbusFlowController,
    ModbusFlowMeter,
    RegisterMap,
    RtuFraming,
    WriteRegisters,
    basis_registers,
    liquid_registers,
    open_modbus_device,
    pressure_registers,
)
from penstock.alicat.transport import ByteStreamTransport
from penstock.sim import (
    AsciiUnit,
    BasisController,
    Bus,
    BusFaults,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    MemoryStream,
    ModbusRtuFraming,
    ModbusTcpFraming,
    ModbusUnit,
    PressureController,
    PressureMeter,
    open_pty,
    open_tcp,
)

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0


def bus_of(
    units: Sequence[AsciiUnit], *, tcp: bool = False, faults: BusFaults | None = None
) -> Bus:
    stations = [ModbusUnit(unit, number) for number, unit in enumerate(units, start=1)]
    framing = ModbusTcpFraming() if tcp else ModbusRtuFraming()
    return Bus(stations, baudrate=None, turnaround=0.0, framing=framing, faults=faults)


@asynccontextmanager
async def in_memory(unit: AsciiUnit) -> AsyncIterator[tuple[Any, str]]:
    yield MemoryStream(bus_of([unit])), "rtu"


@asynccontextmanager
async def on_pty(unit: AsciiUnit) -> AsyncIterator[tuple[Any, str]]:
    async with open_pty(bus_of([unit])) as path:
        yield path, "rtu"


@asynccontextmanager
async def on_tcp(unit: AsciiUnit) -> AsyncIterator[tuple[Any, str]]:
    async with open_tcp(bus_of([unit], tcp=True)) as number:
        yield f"tcp://127.0.0.1:{number}", "tcp"


MEDIA: list[Callable[[AsciiUnit], AbstractAsyncContextManager[tuple[Any, str]]]] = [
    in_memory,
    on_pty,
    on_tcp,
]


@asynccontextmanager
async def opened(
    unit: AsciiUnit, registers: RegisterMap, **options: Any
) -> AsyncIterator[ModbusFlowMeter]:
    stream = MemoryStream(bus_of([unit]))
    async with await open_modbus_device(
        stream, registers=registers, timeout=TIMEOUT, **options
    ) as device:
        yield device


@pytest.mark.parametrize("medium", MEDIA)
async def test_controller_is_set_and_read_on_every_medium(
    medium: Callable[[AsciiUnit], AbstractAsyncContextManager[tuple[Any, str]]],
) -> None:
    unit = MassFlowController("A", tau=0.0)
    async with medium(unit) as (where, protocol):
        device = await open_modbus_device(
            where, protocol=protocol, timeout=TIMEOUT, units={"mass_flow_setpt": "SCCM"}
        )
        async with device:
            assert isinstance(device, ModbusFlowController)
            assert (await device.setpoint(120.0, "SCCM")).accepted
            assert unit.setpoint == 120.0
            reading = await device.poll()
            assert reading.values["Mass_Flow"] == reading.values["Mass_Flow_Setpt"] == 120.0
            assert (await device.gas("CO2")).gas is Gas.CO2
            assert StatusCode.HLD in (await device.hold_valves()).reading.status
            await device.cancel_valve_hold()
            with pytest.raises(AlicatCommandRejectedError):
                await device.setpoint(600.0)
            assert (await device.setpoint()).requested == 120.0


def supplied(unit: AsciiUnit, value: float) -> AsciiUnit:
    unit.instrument.supply(value)
    return unit


FAMILIES: list[tuple[Callable[[], AsciiUnit], RegisterMap, dict[str, float]]] = [
    (
        lambda: supplied(MassFlowMeter("A", tau=0.0), 25.0),
        MASS_FLOW_METER_REGISTERS,
        {"Abs_Press": 14.62, "Flow_Temp": 21.89, "Mass_Flow": 25.0},
    ),
    (
        lambda: supplied(LiquidMeter("A", tau=0.0), 25.0),
        liquid_registers(controller=False),
        {"Gauge_Press": -0.08, "Flow_Temp": 21.89, "Volu_Flow": 25.0},
    ),
    (
        lambda: supplied(LiquidController("A", tau=0.0), 30.0),
        liquid_registers(),
        {"Gauge_Press": -0.08, "Volu_Flow": 30.0},
    ),
    (
        lambda: supplied(PressureMeter("A", tau=0.0, reference="G"), 42.0),
        pressure_registers(Statistic.GAUGE_PRESS, controller=False),
        {"Gauge_Press": 42.0},
    ),
    (
        lambda: supplied(PressureController("A", tau=0.0, reference="D"), 12.0),
        pressure_registers(Statistic.DIFF_PRESS),
        {"Diff_Press": 12.0},
    ),
    (
        lambda: supplied(CoriolisMeter("A", tau=0.0), 10.0),
        CODA_METER_REGISTERS,
        {"Flow_Temp": 21.89, "Volu_Flow": 0.0006, "Mass_Flow": 600.0},
    ),
    (
        lambda: supplied(BasisController("A", tau=0.0), 20.0),
        basis_registers(1),
        {"Flow_Temp": 24.57, "Mass_Flow": 20.0, "Mass_Flow_Setpt": 20.0, "Valve_Drive": 20.0},
    ),
]


@pytest.mark.parametrize(("make", "registers", "values"), FAMILIES)
async def test_every_family_is_read(
    make: Callable[[], AsciiUnit], registers: RegisterMap, values: dict[str, float]
) -> None:
    async with opened(make(), registers) as device:
        reading = await device.poll()
        shown = {name: reading.values[name] for name in values}
        assert shown == pytest.approx(values, abs=0.005)
        assert [field.name for field in device.field_schema()] == list(reading.values)
        assert ("Gas" in reading.values) == (registers.gas is not None)


async def test_setpoints_of_liquid_and_pressure_are_in_their_units() -> None:
    liquid = LiquidController("A", tau=0.0)
    async with opened(liquid, liquid_registers(), units={"vol_flow_setpt": "CCM"}) as device:
        assert isinstance(device, ModbusFlowController)
        assert (await device.setpoint(40.0, "CCM")).accepted
        assert liquid.setpoint == 40.0
        with pytest.raises(AlicatValidationError, match="in CCM, not in"):
            await device.setpoint(40.0, "SCCM")
    pressure = PressureController("A", tau=0.0)
    registers = pressure_registers(Statistic.ABS_PRESS)
    async with opened(pressure, registers, units={"abs_press_setpt": "PSIA"}) as device:
        assert isinstance(device, ModbusFlowController)
        assert (await device.setpoint(30.0)).unit_label == "PSIA"
        assert pressure.setpoint == 30.0


async def test_units_of_coda_are_those_of_its_manual() -> None:
    async with opened(CoriolisMeter("A"), CODA_METER_REGISTERS) as device:
        reading = await device.poll()
        assert dict(reading.units) == {
            "Flow_Temp": "°C",
            "Volu_Flow": "m3/h",
            "Mass_Flow": "g/h",
            "Tot_Mass": "g",
        }


async def test_what_is_not_documented_is_refused_by_its_name() -> None:
    async with opened(CoriolisMeter("A"), CODA_METER_REGISTERS) as device:
        with pytest.raises(AlicatUnsupportedCommandError, match=r"command 4 \(TARE\)"):
            await device.tare_flow()
        with pytest.raises(AlicatUnsupportedCommandError, match="a register of the gas"):
            await device.gas()
        with pytest.raises(AlicatUnsupportedCommandError, match="CREATE_MIX"):
            await device.create_mix(240, {"N2": 50, "O2": 50})
    async with opened(PressureMeter("A"), pressure_registers(Statistic.ABS_PRESS)) as device:
        with pytest.raises(AlicatUnsupportedCommandError, match="RESET_TOTALIZER"):
            await device.totalizer_reset(confirm=True)
        await device.tare_absolute_pressure()


async def test_gains_variable_and_power_up_setpoint_are_set() -> None:
    unit = MassFlowController("A", tau=0.0)
    async with opened(unit, MASS_FLOW_CONTROLLER_REGISTERS) as device:
        assert isinstance(device, ModbusFlowController)
        assert await device.loop_gains() == LoopGains(p=200, i=100, d=20)
        assert await device.loop_gains(300, 150, 30) == LoopGains(p=300, i=150, d=30)
        with pytest.raises(AlicatValidationError, match="0 to 65535"):
            await device.loop_gains(65536)
        await device.setpoint(50.0)
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.save_power_up_setpoint()
        await device.save_power_up_setpoint(confirm=True)
        assert unit.instrument.power_up_setpoint == 50.0
        await device.loop_control_variable("abs_press")
        assert unit.control_variable == 34
        with pytest.raises(AlicatCommandRejectedError, match="does not have this feature"):
            await device.loop_control_variable("diff_press")
        with pytest.raises(AlicatValidationError, match="no number"):
            await device.loop_control_variable("abs_press_second_setpt")


async def test_number_is_changed() -> None:
    async with opened(MassFlowMeter("A"), MASS_FLOW_METER_REGISTERS) as device:
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.change_number(9)
        with pytest.raises(AlicatValidationError, match="1 to 247"):
            await device.change_number(248, confirm=True)
        await device.change_number(9, confirm=True)
        assert (await device.poll()).unit_id == "9"


async def test_basis_is_tared_reset_and_given_another_gas() -> None:
    unit = supplied(BasisController("A", tau=0.0, serial_number="B777"), 20.0)
    async with opened(unit, basis_registers(1)) as device:
        assert device.serial == "B777"
        assert device.facts()["serial"] == "B777"
        assert (await device.gas("CO2")).gas is Gas.CO2
        assert (await device.gas(3)).label == "N2"
        with pytest.raises(AlicatValidationError, match="it has Air, Ar"):
            await device.gas("SF6")
        assert (await device.tare_flow()).reading.values["Mass_Flow"] == 0.0
        await device.totalizer_reset(confirm=True)


# -- a line that is lost ----------------------------------------------------------------------


class Plug:
    """Memory streams of one bus after another, as what is plugged into an adapter."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.stream: MemoryStream | None = None

    async def open(self) -> ByteStreamTransport:
        self.stream = MemoryStream(self.bus)
        return ByteStreamTransport(self.stream)

    async def pull(self) -> None:
        assert self.stream is not None
        await self.stream.aclose()


async def client_of(plug: Plug) -> ModbusClient:
    return ModbusClient(await plug.open(), RtuFraming(), timeout=TIMEOUT, reconnect=plug.open)


async def test_instrument_that_tells_its_serial_number_is_known_again() -> None:
    plug = Plug(bus_of([BasisController("A", serial_number="B1")]))
    client = await client_of(plug)
    async with client:
        device = await open_modbus_device(client, registers=basis_registers(1))
        await plug.pull()
        with pytest.raises(AlicatConnectionError, match="it is opened again"):
            await device.poll()
        assert (await device.poll()).unit_id == "1"
        assert client.generation == 1


async def test_another_instrument_is_not_taken_for_it() -> None:
    plug = Plug(bus_of([BasisController("A", serial_number="B1")]))
    client = await client_of(plug)
    async with client:
        device = await open_modbus_device(client, registers=basis_registers(1))
        was = plug.bus
        plug.bus = bus_of([BasisController("A", serial_number="B2")])
        await plug.pull()
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        for _ in range(2):
            with pytest.raises(AlicatIdentityError, match="'B2', and was 'B1'"):
                await device.tare_flow()
        plug.bus = was
        await plug.pull()
        with pytest.raises(AlicatError):
            await device.poll()
        with anyio.fail_after(60):
            while True:
                try:
                    await device.poll()
                    break
                except AlicatError:
                    await anyio.sleep(0.05)


async def test_line_without_serial_numbers_stays_lost_unless_it_is_vouched_for() -> None:
    plug = Plug(bus_of([MassFlowController("A"), MassFlowController("B")]))
    client = await client_of(plug)
    async with client:
        unknown = await open_modbus_device(client, unit=1)
        vouched = await open_modbus_device(client, unit=2, assume_same_instrument=True)
        await plug.pull()
        for _ in range(2):
            with pytest.raises(AlicatConnectionError, match="lost"):
                await unknown.poll()
        assert (await vouched.poll()).unit_id == "2"
        with pytest.raises(AlicatIdentityError, match="assume_same_instrument=True"):
            await unknown.poll()


async def test_setpoint_is_not_sent_on_a_line_that_was_opened_again_meanwhile() -> None:
    unit = MassFlowController("A")
    plug = Plug(bus_of([unit]))
    client = await client_of(plug)
    async with client:
        device = await open_modbus_device(client, assume_same_instrument=True)
        await plug.pull()
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        assert client.statistics.reconnects == 0
        await client.reopen()
        assert client.statistics.reconnects == 1
        with pytest.raises(AlicatConnectionError, match="reopened meanwhile"):
            await client.execute(1, WriteRegisters(1009, (1, 2)), generation=0)
        assert unit.setpoint == 0.0


async def test_tries_to_open_a_line_are_spaced() -> None:
    plug = Plug(bus_of([MassFlowController("A")]))
    client = await client_of(plug)
    async with client:
        device = await open_modbus_device(client, assume_same_instrument=True)
        await plug.pull()
        plug.bus.faults = BusFaults(unplug=[(0.0, 1e9)])
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await device.poll()
        with pytest.raises(AlicatConnectionError, match="tried again in"):
            await device.poll()


async def test_pty_that_was_unplugged_is_opened_again() -> None:
    bus = bus_of([MassFlowController("A")], faults=BusFaults(unplug=[(0.5, 0.2)]))
    async with open_pty(bus) as path:
        with anyio.fail_after(60):
            device: ModbusFlowMeter | None = None
            while device is None:
                try:
                    device = await open_modbus_device(
                        path,
                        serial=SerialSettings(path, baudrate=115200),
                        timeout=0.5,
                        assume_same_instrument=True,
                    )
                except AlicatError:
                    await anyio.sleep(0.05)
            async with device:
                while True:
                    unplugged = bool(bus.fault_log.counts)
                    try:
                        await device.poll()
                    except AlicatError:
                        pass
                    else:
                        if unplugged:
                            break
                    await anyio.sleep(0.01)


async def test_no_value_is_wrong_on_a_line_with_every_fault() -> None:
    unit = MassFlowController("A")
    unit.readings = lambda poll: (poll % 100, poll % 90, poll % 80, float(poll), 0.0)
    faults = BusFaults(drop_rate=0.05, corrupt_rate=0.1, noise_rate=0.1, seed=3)
    stream = MemoryStream(bus_of([unit], faults=faults))
    client = ModbusClient(
        ByteStreamTransport(stream), RtuFraming(), timeout=0.05, late_reply_window=0.01
    )
    device = ModbusFlowMeter(client, unit=1, registers=MASS_FLOW_METER_REGISTERS)
    read = failed = 0
    async with client:
        for _ in range(150):
            try:
                reading = await device.poll()
            except AlicatError:
                failed += 1
                continue
            poll = int(reading.get_float("Mass_Flow"))
            assert poll == unit.polls
            assert reading.values["Abs_Press"] == poll % 100
            read += 1
    assert read + failed == 150
    assert read > 50
    assert failed > 10
