"""Controllers besides their setpoint: registers, gains, mixes, settling, safe states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatError,
    AlicatManager,
    AlicatMissingHardwareError,
    AlicatTimeoutError,
    AlicatValidationError,
    Capability,
    FlowController,
    LoopAlgorithm,
    PidSettings,
    SafeState,
    Statistic,
    StpNtpMode,
    TimeUnit,
    TotalizerId,
    TotalizerLimitMode,
    TotalizerMode,
    Unit,
    UnknownGasError,
    UnknownStatisticError,
    UnknownUnitError,
    open_device,
)
from penstock.sim import Bus, MassFlowController, open_memory

from .scripted_bus import ScriptedBus, controller, meter, old_controller

pytestmark = pytest.mark.anyio

TIMEOUT = 5.0


@asynccontextmanager
async def simulated(
    unit: MassFlowController, *, safe_state: SafeState = SafeState.LEAVE
) -> AsyncIterator[FlowController]:
    async with open_memory(Bus([unit], baudrate=None, turnaround=0)) as wire:
        device = await open_device(
            wire,
            timeout=TIMEOUT,
            safe_state=safe_state,
            assume_capabilities=Capability.MULTI_VALVE,
        )
        async with device:
            assert isinstance(device, FlowController)
            yield device


async def test_unit_that_nobody_knows_is_stated_as_the_instrument_writes_it() -> None:
    unit = controller()
    table = unit.replies[b"??D*"]
    assert isinstance(table, Sequence) and not isinstance(table, bytes)
    unit.replies[b"??D*"] = [row.replace(b"SCCM", b"XYZ ") for row in table]
    unit.replies[b"LS*"] = lambda command: b"A +0.00 +5.00 250 XYZ"
    async with await open_device(ScriptedBus(unit), timeout=TIMEOUT) as device:
        assert isinstance(device, FlowController)
        device.limit_setpoint(0, 10, unit="XYZ")
        state = await device.setpoint(5.0, "xyz")
        assert (state.accepted, state.unit, state.unit_label) == (True, None, "XYZ")
        with pytest.raises(UnknownUnitError, match="ZYX"):
            await device.setpoint(5.0, "ZYX")
        with pytest.raises(AlicatValidationError, match="in XYZ, not in SCCM"):
            await device.setpoint(5.0, "SCCM")


async def test_registers_are_read_and_written() -> None:
    unit = MassFlowController("A")
    async with simulated(unit) as device:
        assert await device.read_register(46) == 8
        assert await device.write_register(46, 4, confirm=True) == 4
        assert unit.gas.short == "CO2"
        assert (await device.poll()).values["Gas"] == "CO2"
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.write_register(46, 8)
        with pytest.raises(AlicatCommandRejectedError):
            await device.write_register(46, 99, confirm=True)


async def test_register_that_keeps_its_value_is_an_error() -> None:
    unit = controller()
    unit.replies[b"$$W*"] = b"A   091 = 50"
    device = await open_device(ScriptedBus(unit), timeout=TIMEOUT)
    with pytest.raises(AlicatCommandRejectedError, match=r"rejected 20 for .* reads 50"):
        await device.write_register(91, 20, confirm=True)


async def test_controlled_quantity_chosen_by_register_changes_the_frame() -> None:
    async with simulated(MassFlowController("A")) as device:
        await device.write_register(122, 36, confirm=True)
        assert "Volu_Flow_Setpt" in (await device.poll()).values


async def test_gains_are_read_and_set() -> None:
    async with simulated(MassFlowController("A")) as device:
        assert await device.pid() == PidSettings("A", LoopAlgorithm.PD_PDF, 200, 20, 100)
        with pytest.raises(AlicatValidationError, match="oscillate"):
            await device.pid(proportional=300)
        changed = await device.pid(
            algorithm=LoopAlgorithm.PD2I, proportional=300, integral=150, confirm=True
        )
        assert changed == PidSettings("A", LoopAlgorithm.PD2I, 300, 20, 150)
        assert await device.pid() == changed


async def test_mix_is_made_chosen_and_forgotten() -> None:
    async with simulated(MassFlowController("A")) as device:
        mix = await device.create_mix(236, "Shield", {"Ar": 75, "CO2": 25})
        assert mix.number == 236
        assert (await device.gas(236)).label == "Shield"
        await device.gas("N2")
        assert (await device.gas("shield")).code == 236
        with pytest.raises(UnknownGasError, match="gas_list"):
            await device.gas("Foo")
        await device.poll()
        await device.gas("N2")
        with pytest.raises(AlicatValidationError, match="the mix is lost"):
            await device.delete_mix(236)
        await device.delete_mix(236, confirm=True)
        with pytest.raises(AlicatCommandRejectedError):
            await device.delete_mix(236, confirm=True)


async def test_batch_and_ramp_options_are_read_and_set() -> None:
    async with simulated(MassFlowController("A")) as device:
        assert (await device.totalizer_batch()).volume == 0
        batch = await device.totalizer_batch(12.5, totalizer=TotalizerId.SECOND)
        assert (batch.volume, batch.totalizer) == (12.5, TotalizerId.SECOND)
        options = await device.ramp_options(up=True, down=False, to_zero=True, at_power_up=False)
        assert (options.up, options.down, options.to_zero) == (True, False, True)
        assert await device.ramp_options() == options


async def test_statistics_and_units_of_settings_are_chosen_by_name_or_by_number() -> None:
    async with simulated(MassFlowController("A")) as device:
        by_name = await device.average_timing("mass_flow", 250)
        assert by_name == await device.average_timing(5)
        assert by_name.statistic is Statistic.MASS_FLOW
        with pytest.raises(UnknownStatisticError, match="mass_flow"):
            await device.average_timing("mass_flows")
        pressure = await device.stp_ntp_pressure(StpNtpMode.STP, 14.5, Unit.PSI)
        assert (pressure.pressure, pressure.unit_code) == (14.5, 10)
        temperature = await device.stp_ntp_temperature(StpNtpMode.NTP, 20.0, "°C")
        assert (temperature.temperature, temperature.unit_code) == (20.0, 2)
        with pytest.raises(UnknownUnitError):
            await device.stp_ntp_pressure(StpNtpMode.STP, 1.0, "SLPM")
        counted = await device.totalizer_config(
            flow_statistic_code=Statistic.MASS_FLOW,
            mode=TotalizerMode.BIDIRECTIONAL,
            limit_mode=TotalizerLimitMode.ROLLOVER,
            digits=9,
            decimal_place=1,
        )
        assert counted.flow_statistic_code == 5
        assert counted.flow_statistic is Statistic.MASS_FLOW


async def test_unit_of_a_setting_is_sent_as_the_code_that_belongs_to_its_statistic() -> None:
    unit, asked = controller(), []

    def answer(command: bytes) -> bytes:
        asked.append(command)
        return b"A 5 7 SLPM" if command.startswith(b"ASOCV") else b"A 1 +2.00 4 SL"

    unit.replies[b"ASOCV*"] = unit.replies[b"TB*"] = answer
    async with await open_device(
        ScriptedBus(unit), timeout=TIMEOUT, assume_capabilities=Capability.ANALOG_OUTPUT
    ) as device:
        assert isinstance(device, FlowController)
        shown = await device.analog_output_source(value="mass_flow", unit_code="SLPM")
        assert (shown.value, shown.statistic) == (5, Statistic.MASS_FLOW)
        await device.totalizer_batch(2.0, unit_code="SL")
        await device.totalizer_batch(2.0, unit_code=Unit.US_GAL)
        assert [command.split()[-1] for command in asked] == [b"7", b"4", b"5"]
        with pytest.raises(UnknownUnitError):
            await device.analog_output_source(value="mass_flow", unit_code="PSI")
        with pytest.raises(UnknownUnitError):
            await device.totalizer_batch(2.0, unit_code="SLPM")
        with pytest.raises(AlicatValidationError, match="state both"):
            await device.analog_output_source(unit_code="SLPM")
    assert len(asked) == 3


async def test_exhaust_needs_its_valve_and_a_confirmation() -> None:
    async with simulated(MassFlowController("A")) as device:
        with pytest.raises(AlicatValidationError, match="confirm=True"):
            await device.exhaust()
        assert (await device.exhaust(confirm=True)).held
    single = await open_device(ScriptedBus(controller()), timeout=TIMEOUT)
    assert isinstance(single, FlowController)
    with pytest.raises(AlicatMissingHardwareError, match="MULTI_VALVE"):
        await single.exhaust(confirm=True)


async def test_settling_waits_until_the_flow_has_arrived() -> None:
    unit = MassFlowController("A", tau=0.05)
    async with simulated(unit) as device:
        await device.setpoint(100)
        reading = await device.settle(hold_duration=0.05, interval=0.005, timeout=30)
        flow = reading.get_float("Mass_Flow")
        assert flow is not None and abs(flow - 100) <= 1.0


async def test_settling_says_how_far_off_it_is_when_it_gives_up() -> None:
    unit = MassFlowController("A", tau=0)
    async with simulated(unit) as device:
        await device.setpoint(100)
        unit.force_flow(40)
        with pytest.raises(AlicatTimeoutError, match=r"settled at 100.*Mass_Flow is 40"):
            await device.settle(timeout=0.05, interval=0.01)


async def test_ramp_ends_where_it_was_to() -> None:
    unit = MassFlowController("A", tau=0)
    async with simulated(unit) as device:
        reading = await device.ramp_to(50, 1000, TimeUnit.SECOND, unit="SCCM", timeout=30)
        assert reading.values["Mass_Flow_Setpt"] == 50
        assert (await device.ramp_rate()).max_ramp == 1000
        with pytest.raises(AlicatValidationError, match="above 0"):
            await device.ramp_to(50, 0, TimeUnit.SECOND)


async def test_setpoint_outside_of_the_users_limits_is_not_sent() -> None:
    bus = ScriptedBus(controller())
    device = await open_device(bus, timeout=TIMEOUT)
    assert isinstance(device, FlowController)
    device.limit_setpoint(high=50)
    bus.commands.clear()
    with pytest.raises(AlicatValidationError, match="outside the limits"):
        await device.setpoint(60)
    assert bus.commands == [b"ALS"]
    device.limit_setpoint()
    assert (await device.setpoint(60)).accepted
    with pytest.raises(AlicatValidationError, match="above the upper limit"):
        device.limit_setpoint(2, 1)


async def test_setpoint_is_refused_while_the_source_is_known_to_be_analogue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unit = MassFlowController("A")
    async with simulated(unit) as device:
        unit.answer("LSS A")
        state = await device.setpoint(10)
        assert not state.accepted
        assert "its setpoint source is 'A'" in caplog.text
        with pytest.raises(AlicatValidationError, match=r"setpoint_source\('S'\)"):
            await device.setpoint(10)
        unit.answer("LSS S")  # at the panel
        assert (await device.setpoint(10)).accepted


@pytest.mark.parametrize(
    ("state", "setpoint", "held"),
    [(SafeState.LEAVE, 100.0, False), (SafeState.ZERO, 0.0, False), (SafeState.HOLD, 100.0, True)],
)
async def test_controller_is_left_in_the_safe_state(
    state: SafeState, setpoint: float, held: bool
) -> None:
    unit = MassFlowController("A", tau=0)
    async with simulated(unit, safe_state=state) as device:
        await device.setpoint(100)
    assert unit.setpoint == setpoint
    assert ("HLD" in unit.answer("")[0]) is held


async def test_old_controller_is_set_to_zero_too() -> None:
    bus = ScriptedBus(old_controller())
    device = await open_device(bus, timeout=TIMEOUT, safe_state=SafeState.ZERO)
    await device.close()
    assert b"AS 0.0" in bus.commands
    assert bus.closed


async def test_safe_state_is_reached_by_a_cancelled_task() -> None:
    unit = MassFlowController("A", tau=0)
    with anyio.CancelScope() as scope:
        async with simulated(unit, safe_state=SafeState.ZERO) as device:
            await device.setpoint(100)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert unit.setpoint == 0


async def test_safe_state_that_is_not_reached_is_told_and_all_is_closed() -> None:
    bus = ScriptedBus(controller())
    device = await open_device(bus, timeout=0.1, safe_state=SafeState.ZERO)
    bus.lost = OSError("unplugged")
    with pytest.raises(AlicatConnectionError):
        await device.close()
    assert bus.closed
    await device.close()


async def test_what_ended_the_block_is_not_hidden_by_the_safe_state() -> None:
    bus = ScriptedBus(controller())
    with pytest.raises(KeyError) as caught:
        async with await open_device(bus, timeout=0.1, safe_state=SafeState.ZERO):
            bus.lost = OSError("unplugged")
            raise KeyError("mine")
    assert "the safe state was not reached" in caught.value.__notes__[0]


async def test_safe_state_of_a_meter_sends_nothing() -> None:
    bus = ScriptedBus(meter())
    device = await open_device(bus, timeout=TIMEOUT, safe_state=SafeState.ZERO)
    bus.commands.clear()
    await device.close()
    assert bus.commands == []


async def test_manager_closes_its_ports_although_a_safe_state_is_not_reached() -> None:
    bus = ScriptedBus(controller())
    manager = AlicatManager()
    await manager.add("fuel", bus, timeout=0.1, safe_state=SafeState.ZERO)
    bus.lost = OSError("unplugged")
    with pytest.raises(ExceptionGroup):
        await manager.close()
    assert bus.closed


async def test_a_setpoint_is_checked_without_being_sent() -> None:
    unit = MassFlowController("A", full_scale=500.0)
    async with simulated(unit) as device:
        await device.setpoint(40.0, "SCCM")
        await device.check_setpoint(100.0, "SCCM")
        for value, unit_label in ((600.0, "SCCM"), (-1.0, "SCCM"), (0.1, "SLPM")):
            with pytest.raises(AlicatValidationError):
                await device.check_setpoint(value, unit_label)
        assert (await device.setpoint()).requested == 40.0


async def test_zero_is_sent_in_whatever_unit_the_instrument_counts() -> None:
    unit = MassFlowController("A", full_scale=500.0)
    async with simulated(unit) as device:
        await device.setpoint(40.0, "SCCM")
        unit.choose_unit(5, 7)  # SLPM, at its panel
        unit.choose_unit(37, 7)
        with pytest.raises(AlicatError):
            await device.setpoint(0.0, "SCCM")
        await device.zero_setpoint()
        assert (await device.setpoint()).requested == 0.0
