"""After someone changes the unit at the panel, nothing is sent or shown in the old one."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatError,
    AlicatUnitChangedError,
    AlicatValidationError,
    Commands,
    EventKind,
    FlowController,
    TimeUnit,
    Unit,
    open_device,
)
from penstock.alicat.commands import SetpointRequest
from penstock.sim import Bus, MassFlowController, open_memory

from .captures import FORMAT_5V12, FORMAT_10V20, FRAME_10V20
from .opened import TIMEOUT, opened
from .scripted_bus import ScriptedBus, controller, meter, old_controller, show_in_slpm

pytestmark = pytest.mark.anyio


class TestUnits:
    async def test_setpoint_is_not_sent_in_a_unit_that_was_chosen_at_the_panel(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        show_in_slpm(unit)
        with pytest.raises(AlicatUnitChangedError, match=r"in SLPM now.*not in SCCM") as caught:
            await device.setpoint(0.1)
        assert (caught.value.expected, caught.value.actual) == ("SCCM", "SLPM")
        assert not any(command.startswith(b"ALS ") for command in bus.commands)
        assert [event.kind for event in events] == [
            EventKind.UNIT_CHANGED,
            EventKind.FORMAT_CHANGED,
        ]
        assert events[0].data["after"] == "SLPM"

    async def test_setpoint_without_a_unit_is_refused_until_the_new_unit_is_accepted(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)
        for _ in range(2):
            with pytest.raises(AlicatUnitChangedError):
                await device.setpoint(0.1)
        assert (await device.setpoint(0.1, Unit.SLPM)).unit is Unit.SLPM
        with pytest.raises(AlicatUnitChangedError):
            await device.setpoint(0.1)
        await device.refresh_data_frame_format()
        await device.setpoint(0.1)
        assert bus.commands.count(b"ALS 0.1") == 2

    async def test_stated_unit_that_is_no_longer_in_force_is_refused(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)
        with pytest.raises(AlicatValidationError, match="in SLPM, not in SCCM"):
            await device.setpoint(100, "SCCM")
        assert b"ALS 100.0" not in bus.commands

    async def test_old_firmware_proves_its_unit_by_its_table(self) -> None:
        unit = old_controller()
        device, bus, events = await opened(unit)
        unit.replies[b"??D*"] = [row.replace(b"SCCM", b"SLPM") for row in FORMAT_5V12]
        with pytest.raises(AlicatUnitChangedError):
            await device.setpoint(75)
        assert not any(command.startswith(b"AS") for command in bus.commands)
        assert [event.kind for event in events] == [EventKind.FORMAT_CHANGED]

    async def test_unit_that_changes_while_the_setpoint_is_set_is_told(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)

        def setpoint(command: bytes) -> bytes:
            if command == b"LS":
                return b"A +000.00 +000.00 12 SCCM"
            show_in_slpm(unit)
            return b"A +000.00 +010.00 07 SLPM"

        unit.replies[b"LS*"] = setpoint
        with pytest.raises(AlicatUnitChangedError, match="correct it now"):
            await device.setpoint(10)

    async def test_readings_bear_the_unit_that_the_instrument_is_asked_for_now_and_then(
        self,
    ) -> None:
        unit = controller()
        device, bus, _ = await opened(unit, config=AlicatConfig(unit_check_s=1e-9))
        show_in_slpm(unit)
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"
        assert bus.commands[0] == b"ALS"

    async def test_unit_is_not_asked_for_at_every_poll(self) -> None:
        device, bus, _ = await opened(controller())
        await device.poll()
        await device.poll()
        assert bus.commands == [b"A", b"A"]

    async def test_meter_is_asked_for_the_unit_of_its_flow(self) -> None:
        unit = meter()
        unit.replies[b"VE"] = b"A   10v20.0-R24 Jan  9 2025,15:04:07"
        unit.replies[b"DCU 5"] = b"A 12 SCCM"
        bus = ScriptedBus(unit)
        config = AlicatConfig(unit_check_s=1e-9)
        device = await open_device(bus, timeout=TIMEOUT, config=config)
        await device.poll()
        assert b"ADCU 5" in bus.commands

    async def test_unit_that_is_chosen_by_command_is_no_surprise(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)

        def choose(command: bytes) -> bytes:
            show_in_slpm(unit)
            return b"A 7 SLPM"

        unit.replies[b"DCU 5 7"] = choose
        assert (await device.engineering_units("mass_flow", "SLPM")).unit is Unit.SLPM
        await device.setpoint(0.1)
        assert b"ALS 0.1" in bus.commands
        assert EventKind.UNIT_CHANGED not in [event.kind for event in events]

    async def test_full_scale_follows_the_unit(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        show_in_slpm(unit)
        await device.refresh_data_frame_format()
        with pytest.raises(AlicatValidationError, match=r"full scale of 0\.5 SLPM"):
            await device.setpoint(1)

    async def test_frames_of_another_form_have_the_format_read_again(self) -> None:
        unit = controller()
        device, _, events = await opened(unit)
        unit.replies[b"??D*"] = [row for row in FORMAT_10V20 if b"Volu Flow " not in row]
        unit.replies[b"??D*"] = [
            b"A D%02d" % number + row[5:] for number, row in enumerate(unit.replies[b"??D*"])
        ]
        unit.replies[b""] = FRAME_10V20.replace(b"+000.00 ", b"", 1)
        for _ in range(2):
            with pytest.raises(Exception, match="data frame"):
                await device.poll()
        assert "Volu_Flow" not in (await device.poll()).values
        assert device.session.revision == 1
        assert [event.kind for event in events] == [EventKind.FORMAT_CHANGED]

    async def test_format_is_read_again_until_it_was_read(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        tables = [None, None, [row.replace(b"SCCM", b"SmL/m") for row in FORMAT_10V20]]
        tables[2] = [row.replace(b"7/2 012", b"7/3 004") for row in tables[2] or []]
        unit.replies[b"??D*"] = lambda command: tables.pop(0) if len(tables) > 1 else tables[0]
        unit.replies[b""] = b"A +014.62 +021.89 +00.000 +00.000 +78.950     N2"
        for _ in range(6):
            with contextlib.suppress(AlicatError):
                await device.poll()
        assert (await device.poll()).units["Mass_Flow"] == "SmL/m"


class TestThreeFactsAboutTheUnit:
    """Table, answer and confirmation: nothing is sent, or counts as set, unless they agree."""

    @pytest.mark.parametrize("stated", ["SCCM", "SLPM", None])
    async def test_nothing_is_sent_while_answer_and_table_contradict_each_other(
        self, stated: str | None
    ) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        unit.replies[b"LS*"] = b"A +000.08 +000.08 7 SLPM"  # and the table keeps its SCCM
        with pytest.raises(AlicatUnitChangedError, match=r"answers in SLPM.*in SCCM.*nothing was"):
            await device.setpoint(100, stated)
        assert not any(command.startswith(b"ALS ") for command in bus.commands)

    async def test_damaged_answer_does_not_prevent_the_setpoint(self) -> None:
        device, bus, _ = await opened(controller())
        bus.change_next(lambda reply: reply.replace(b"SCCM", b"SCCS"))
        assert (await device.setpoint(100)).accepted

    async def test_damaged_confirmation_is_no_success(self) -> None:
        device, bus, _ = await opened(controller())
        bus.let_pass_next()
        bus.change_next(lambda reply: reply.replace(b"SCCM", b"SCCS"))
        with pytest.raises(AlicatUnitChangedError, match="or its answer was damaged"):
            await device.setpoint(100)

    async def test_limits_hold_for_bare_commands_too(self) -> None:
        device, bus, _ = await opened(controller())
        device.limit_setpoint(0, 50)
        with pytest.raises(AlicatValidationError, match="outside the limits"):
            await device.execute(Commands.SETPOINT, SetpointRequest(60.0))
        assert b"ALS 60.0" not in bus.commands

    async def test_confirmation_in_another_unit_is_told_although_the_table_stays(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)

        def setpoint(command: bytes) -> bytes:
            if command == b"LS":
                return b"A +000.00 +000.00 12 SCCM"
            unit.replies[b"LS*"] = b"A +000.00 +010.00 07 SLPM"
            return b"A +000.00 +010.00 07 SLPM"

        unit.replies[b"LS*"] = setpoint
        with pytest.raises(AlicatUnitChangedError, match="sent 10 SCCM, and answered in SLPM"):
            await device.setpoint(10)

    async def test_unit_that_was_chosen_at_the_panel_is_taken_when_it_is_stated(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)
        assert (await device.setpoint(0.1, "SLPM")).unit is Unit.SLPM
        assert b"ALS 0.1" in bus.commands

    @pytest.mark.parametrize(
        ("before", "after", "stated"), [("PSIA", "PSIG", "PSIA"), ("PSIA", "PSIG", None)]
    )
    async def test_absolute_and_gauge_pressure_are_two_units(
        self, before: str, after: str, stated: str | None
    ) -> None:
        unit = controller()
        table = [row.replace(b"SCCM", before.encode()) for row in FORMAT_10V20]
        unit.replies[b"??D*"] = table
        unit.replies[b"LS*"] = b"A +000.00 +000.00 10 " + before.encode()
        unit.replies[b"FPF 5"] = b"?"
        device, bus, _ = await opened(unit)
        unit.replies[b"??D*"] = [row.replace(before.encode(), after.encode()) for row in table]
        unit.replies[b"LS*"] = b"A +000.00 +000.00 10 " + after.encode()
        with pytest.raises(AlicatError, match=f"not in {before}"):
            await device.setpoint(20, stated)
        assert not any(command.startswith(b"ALS ") for command in bus.commands)

    @pytest.mark.parametrize("change", ["units", "raw", "identification"])
    async def test_proof_does_not_outlast_what_may_change_a_unit(self, change: str) -> None:
        unit = controller()
        unit.replies[b"DCU 5 7"] = b"A 7 SLPM"
        device, bus, _ = await opened(unit)
        number = await device.session.prove_setpoint(100.0, None)
        match change:
            case "units":
                await device.engineering_units("mass_flow", "SLPM")
            case "raw":
                await device.client.query_line(b"ADCU 5 7\r")
            case _:
                device.session.invalidate("the test says so")
        with pytest.raises(AlicatUnitChangedError, match="was not sent 100 SCCM"):
            await device.execute(Commands.SETPOINT, SetpointRequest(number))
        assert b"ALS 100.0" not in bus.commands

    @pytest.mark.parametrize(
        "call",
        [
            lambda device: device.execute(Commands.SETPOINT, SetpointRequest(100.0)),
            lambda device: device.ramp_rate(100, TimeUnit.SECOND),
            lambda device: device.ramp_rate(100, TimeUnit.SECOND, unit="SCCM"),
            lambda device: device.deadband_limit(100),
            lambda device: device.deadband_limit(100, unit="SCCM"),
            lambda device: device.ramp_to(100, 10, TimeUnit.SECOND),
        ],
    )
    async def test_every_number_in_the_unit_of_the_setpoint_is_proven(
        self, call: Callable[[FlowController], Awaitable[object]]
    ) -> None:
        unit = controller()
        unit.replies |= {b"SR*": b"A 100.0 7 4 SLPM/s", b"LCDB*": b"A 100.0 7 SLPM"}
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)
        with pytest.raises(AlicatError, match="in SLPM"):
            await call(device)
        sent = (b"ALS ", b"ASR ", b"ALCDB ")
        assert not any(command.startswith(sent) for command in bus.commands)

    @pytest.mark.parametrize("new_unit", ["SLPM", None])
    async def test_limits_are_in_the_unit_of_when_they_were_set(self, new_unit: str | None) -> None:
        unit = controller(full_scale=900.0)
        device, bus, _ = await opened(unit)
        device.limit_setpoint(0, 100)
        show_in_slpm(unit)
        await device.refresh_data_frame_format()
        with pytest.raises(AlicatValidationError, match=r"cannot be compared.*0 to 100 SCCM"):
            await device.setpoint(0.1, new_unit)
        device.limit_setpoint(0, 0.3, "SLPM")
        assert (await device.setpoint(0.1, new_unit)).unit is Unit.SLPM
        with pytest.raises(AlicatValidationError, match="outside the limits"):
            await device.setpoint(0.4, new_unit)
        assert b"ALS 0.4" not in bus.commands

    async def test_limits_of_a_flow_allow_no_pressure(self) -> None:
        unit = MassFlowController("A", full_scale=500.0, tau=0.0)
        async with (
            open_memory(Bus([unit], baudrate=None, turnaround=0)) as wire,
            await open_device(wire, timeout=20) as device,
        ):
            assert isinstance(device, FlowController)
            device.limit_setpoint(0, 100)
            await device.loop_control_variable("abs_press")
            with pytest.raises(AlicatValidationError, match="cannot be compared"):
                await device.setpoint(50, "PSIA")
            device.limit_setpoint(0, 60)
            assert (await device.setpoint(50, "PSIA")).accepted

    async def test_old_controller_is_asked_again_after_it_was_away(self) -> None:
        device, _, _ = await opened(old_controller())
        device.session.invalidate("the test says so")
        assert (await device.setpoint(75, "SCCM")).requested == 75
