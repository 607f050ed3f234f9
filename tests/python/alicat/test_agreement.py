"""Client and simulator agree about every family: each answer is understood as it is meant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.alicat import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatMediumMismatchError,
    AlicatValidationError,
    Capability,
    Commands,
    Device,
    FirmwareFamily,
    FlowController,
    Gas,
    PressureController,
    Statistic,
    StpNtpMode,
    TimeUnit,
    Unit,
    open_device,
)
from penstock.alicat.commands import TotalizerId, TotalizerLimitMode, TotalizerMode
from penstock.sim import (
    BasisController,
    BasisMeter,
    Bus,
    CoriolisController,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    PressureMeter,
    open_memory,
)
from penstock.sim import (
    PressureController as SimulatedPressureController,
)
from penstock.sim._physics.firmware import FIRMWARES

pytestmark = pytest.mark.anyio

TIMEOUT = 1.0
#: One of these is what an instrument is made for.
MEASURED = {
    Statistic.MASS_FLOW,
    Statistic.VOL_FLOW,
    Statistic.ABS_PRESS,
    Statistic.GAUGE_PRESS,
    Statistic.DIFF_PRESS,
}
CAPABILITIES = ~Capability.NONE
Make = Callable[[], Any]

FAMILIES: dict[str, Make] = {
    "mass flow controller": lambda: MassFlowController(tau=0.0),
    "mass flow controller in SLPM": lambda: MassFlowController(
        tau=0.0, full_scale=20.0, flow_unit="SLPM"
    ),
    "mass flow meter": lambda: MassFlowMeter(tau=0.0),
    "liquid controller": lambda: LiquidController(tau=0.0),
    "liquid meter": lambda: LiquidMeter(tau=0.0),
    "Coriolis controller": lambda: CoriolisController(tau=0.0),
    "Coriolis meter": lambda: CoriolisMeter(tau=0.0),
    "pressure controller": lambda: SimulatedPressureController(tau=0.0),
    "gauge pressure controller": lambda: SimulatedPressureController(tau=0.0, reference="G"),
    "pressure meter": lambda: PressureMeter(tau=0.0),
    "differential pressure meter": lambda: PressureMeter(tau=0.0, reference="D", full_scale=10.0),
    "BASIS controller": lambda: BasisController(tau=0.0),
    "BASIS meter": lambda: BasisMeter(tau=0.0),
    **{
        f"firmware {firmware.name}": lambda firmware=firmware: MassFlowController(
            tau=0.0, firmware=firmware
        )
        for name, firmware in FIRMWARES.items()
        if name not in ("basis", "coda")  # firmwares of families that are listed above
    },
}


@pytest.fixture
def anyio_backend() -> str:
    # How the client works on the other loops is tested elsewhere.
    return "asyncio"


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def unit(request: pytest.FixtureRequest) -> Any:
    return request.param()


@asynccontextmanager
async def opened(unit: Any) -> AsyncIterator[Device]:
    async with (
        open_memory(Bus([unit], baudrate=None, turnaround=0.0)) as stream,
        await open_device(stream, timeout=TIMEOUT, assume_capabilities=CAPABILITIES) as device,
    ):
        yield device


def queries(device: Device) -> dict[str, Callable[[], Awaitable[object]]]:
    """Every method that asks and changes nothing."""
    controlled = {
        name: getattr(device, name)
        for name in (
            "setpoint",
            "setpoint_source",
            "loop_control_variable",
            "valve_drive",
            "ramp_rate",
            "ramp_options",
            "deadband_limit",
            "auto_tare",
            "pid",
            "totalizer_batch",
        )
        if hasattr(device, name)
    }
    return controlled | {
        "poll": device.poll,
        "request": lambda: device.request([Statistic.MASS_FLOW, Statistic.ABS_PRESS]),
        "full_scale of flow": lambda: device.full_scale(Statistic.MASS_FLOW),
        "full_scale of pressure": lambda: device.full_scale(Statistic.ABS_PRESS),
        "gas": device.gas,
        "gas_list": device.gas_list,
        "units of flow": lambda: device.engineering_units(Statistic.MASS_FLOW),
        "units of pressure": lambda: device.engineering_units(Statistic.ABS_PRESS),
        "power_up_tare": device.power_up_tare,
        "zero_band": device.zero_band,
        "average_timing": lambda: device.average_timing(5),
        "stp_ntp_pressure": lambda: device.stp_ntp_pressure(StpNtpMode.STP),
        "stp_ntp_temperature": lambda: device.stp_ntp_temperature(StpNtpMode.NTP),
        "analog_output_source": device.analog_output_source,
        "blink_display": device.blink_display,
        "user_data": lambda: device.user_data(1),
        "totalizer_config": device.totalizer_config,
        "totalizer_save": device.totalizer_save,
        "read_register": lambda: device.read_register(46),
        "probe_capabilities": device.probe_capabilities,
        "refresh_data_frame_format": device.refresh_data_frame_format,
    }


async def test_every_query_is_answered_or_refused(unit: Any) -> None:
    wrong = {}
    async with opened(unit) as device:
        # Some firmware is silent to the first question of who is there.
        timeouts = device.client.statistics.timeouts
        for name, ask in queries(device).items():
            try:
                await ask()
            except (
                AlicatCapabilityError,
                AlicatMediumMismatchError,
                AlicatCommandRejectedError,
            ):
                pass
            except Exception as error:
                wrong[name] = f"{type(error).__name__}: {error}"
        statistics = device.client.statistics
    assert wrong == {}
    assert statistics.timeouts == timeouts


def changes(device: Device) -> dict[str, tuple[Callable[[], Awaitable[Any]], Any]]:
    """Every method that changes a setting and reads it back: the call, and what it returns."""
    # What belongs to flow, pressure and controllers alone is refused by others.
    controller: Any = device
    flow = {
        "flow_statistic_code": 5,
        "mode": TotalizerMode.BIDIRECTIONAL,
        "limit_mode": TotalizerLimitMode.ROLLOVER_WITH_TOV,
        "digits": 9,
        "decimal_place": 1,
    }
    ramps = {"up": True, "down": False, "to_zero": True, "at_power_up": False}
    second = TotalizerId.SECOND
    found: dict[str, tuple[Callable[[], Awaitable[Any]], Any]] = {
        "power_up_tare": (lambda: device.power_up_tare(True), {"enabled": True}),
        "zero_band": (lambda: device.zero_band(1.5), {"zero_band": 1.5}),
        "average_timing": (lambda: device.average_timing(5, 250), {"averaging_ms": 250}),
        "stp_ntp_pressure": (
            lambda: device.stp_ntp_pressure(StpNtpMode.STP, 14.5),
            {"pressure": 14.5, "unit_code": 10},
        ),
        "stp_ntp_temperature": (
            lambda: device.stp_ntp_temperature(StpNtpMode.NTP, 20.0, 2),
            {"temperature": 20.0, "unit_code": 2},
        ),
        "analog_output_source": (lambda: device.analog_output_source(value=4), {"value": 4}),
        "blink_display": (lambda: device.blink_display(10), {"flashing": True}),
        "user_data": (lambda: device.user_data(1, "Line 3"), {"value": "Line 3"}),
        "totalizer_config": (lambda: device.totalizer_config(second, **flow), flow),  # type: ignore[arg-type]
        "totalizer_reset": (lambda: device.totalizer_reset(second, confirm=True), {}),
        "totalizer_reset_peak": (lambda: device.totalizer_reset_peak(second, confirm=True), {}),
        "totalizer_save": (lambda: device.totalizer_save(True), {"enabled": True}),
        "engineering_units": (lambda: device.engineering_units(5, 7), {"unit": Unit.SLPM}),
        "create_mix": (lambda: device.create_mix(236, "Shield", {"Ar": 75, "CO2": 25}), {}),
        "gas": (lambda: device.gas(236), {"code": 236}),
        "gas back": (lambda: device.gas("N2"), {"gas": Gas.N2}),
        "delete_mix": (lambda: device.delete_mix(236, confirm=True), {}),
        "write_register": (lambda: device.write_register(30, 77, confirm=True), 77),
        "lock_display": (device.lock_display, {"locked": True}),
        "unlock_display": (device.unlock_display, {"locked": False}),
    }
    if isinstance(device, FlowController | PressureController):
        found |= {
            "setpoint_source": (lambda: controller.setpoint_source("U"), "U"),
            "setpoint_source back": (lambda: controller.setpoint_source("S"), "S"),
            "deadband_limit": (lambda: controller.deadband_limit(0.5), {"deadband": 0.5}),
            "auto_tare": (
                lambda: controller.auto_tare(True, 1.5),
                {"enabled": True, "delay_s": 1.5},
            ),
            "ramp_rate": (lambda: controller.ramp_rate(0.1, TimeUnit.SECOND), {"max_ramp": 0.1}),
            "ramp_options": (lambda: controller.ramp_options(**ramps), ramps),
            "pid": (lambda: controller.pid(proportional=300, confirm=True), {"proportional": 300}),
            "hold_valves": (controller.hold_valves, {"held": True}),
            "cancel_valve_hold": (controller.cancel_valve_hold, {"held": False}),
            "hold_valves_closed": (
                lambda: controller.hold_valves_closed(confirm=True),
                {"held": True},
            ),
            "exhaust": (lambda: controller.exhaust(confirm=True), {"held": True}),
        }
    if isinstance(device, FlowController):
        found["totalizer_batch"] = (
            lambda: controller.totalizer_batch(12.5, totalizer=second),
            {"volume": 12.5},
        )
        found["loop_control_variable"] = (lambda: controller.loop_control_variable(36), {})
    return found


@pytest.mark.parametrize("name", [name for name in FAMILIES if "GP" not in name])
async def test_what_is_set_is_read_back_or_refused(name: str) -> None:
    wrong, refused = {}, {}
    unit = FAMILIES[name]()
    async with opened(unit) as device:
        for method, (change, expected) in changes(device).items():
            try:
                found = await change()
            except (
                AlicatCapabilityError,
                AlicatMediumMismatchError,
                AlicatCommandRejectedError,
                AlicatValidationError,
            ) as error:
                refused[method] = str(error)
                continue
            except Exception as error:
                wrong[method] = f"{type(error).__name__}: {error}"
                continue
            if method.startswith("hold") and "HLD" not in unit.firmware.statuses:
                continue  # its frames cannot show it
            if isinstance(expected, dict):
                found = {key: getattr(found, key) for key in expected}
            if found != expected:
                wrong[method] = f"{found}, not {expected}"
    assert wrong == {}
    if name == "mass flow controller":
        assert refused == {}


async def test_reading_is_the_state_of_the_instrument(unit: Any) -> None:
    async with opened(unit) as device:
        controller = device if isinstance(device, FlowController | PressureController) else None
        can_be_set = device.info.firmware.family is not FirmwareFamily.GP
        wanted = 0.4 * unit.full_scale
        if controller is not None and can_be_set:
            state = await controller.setpoint(wanted)
            assert state.accepted
            assert unit.setpoint == pytest.approx(wanted)
        else:
            unit.instrument.supply(wanted)
        reading = await device.poll()
        fields = {field.statistic: field for field in device.data_frame_format.fields}
    compared = set()
    for quantity, value in zip(unit.instrument.quantities, unit.instrument.measure(), strict=True):
        statistic = Statistic.by_code(quantity.statistic)
        read = reading.get_statistic(statistic)
        if read is None:
            continue  # a column that this family's frame does not have
        compared.add(statistic)
        # The last digit of a column is at most a thousandth of its range.
        assert read == pytest.approx(value, abs=6e-4 * quantity.maximum)
        label = fields[statistic].unit_label
        assert label is not None
        assert Unit.from_label(label) is Unit.from_label(quantity.unit.label) is not None
    assert compared & MEASURED


@pytest.mark.parametrize("name", [name for name in FAMILIES if "firmware" in name])
async def test_gas_that_is_chosen_is_the_one_that_is_shown(name: str) -> None:
    unit = FAMILIES[name]()
    async with opened(unit) as device:
        state = await device.gas("CO2")
        assert (state.gas, unit.gas.short) == (Gas.CO2, "CO2")
        assert (await device.poll()).get_statistic(Statistic.FLUID_NAME) == "CO2"


def test_every_command_of_the_catalogue_has_a_simulated_instrument_that_knows_it() -> None:
    known = {command for firmware in FIRMWARES.values() for command in firmware.commands}
    tokens = {spec.token.removeprefix("$$") for spec in Commands.all().values()}
    assert tokens <= known
