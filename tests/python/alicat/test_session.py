"""What is known of an instrument holds only while it is known to be that instrument."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from itertools import count

import anyio
import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatConnectionError,
    AlicatError,
    AlicatFirmwareError,
    AlicatMissingHardwareError,
    AlicatParseError,
    AlicatProtocolClient,
    AlicatTimeoutError,
    AlicatUnitChangedError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ByteStreamTransport,
    Capability,
    CapabilityEvidence,
    Commands,
    EventKind,
    FlowController,
    Statistic,
    TimeUnit,
    TotalizerId,
    Unit,
    config_from_env,
    open_device,
)
from penstock.alicat.commands import GasSelectRequest, SetpointRequest
from penstock.sim import Bus, MassFlowController, open_memory

from .captures import FORMAT_5V12, FORMAT_10V20, FRAME_10V20
from .opened import TIMEOUT, opened
from .scripted_bus import ScriptedBus, controller, meter, old_controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio


def show_in_slpm(unit: Wired) -> None:
    """What choosing another unit at the panel does."""
    unit.replies[b"LS*"] = lambda command: b"A +000.00 +000.10 07 SLPM"
    unit.replies[b"??D*"] = [row.replace(b"012 02 SCCM", b"007 02 SLPM") for row in FORMAT_10V20]
    unit.replies[b"FPF 5"] = b"A +000.50 07 SLPM"


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
        with pytest.raises(AlicatUnitChangedError, match="correct the setpoint at once"):
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
        with pytest.raises(AlicatValidationError, match="outside of the limits"):
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
        with pytest.raises(AlicatValidationError, match="outside of the limits"):
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


class TestFormatThatIsReadAgain:
    """Table and frame have no checksum, and somebody may be at the panel while they are read."""

    IN_SLPM = b"A +014.62 +021.89 +00.000 +00.100 +00.100     N2"

    @staticmethod
    def table_in_slpm() -> list[bytes]:
        return [row.replace(b"7/2 012 02 SCCM", b"7/3 007 02 SLPM") for row in FORMAT_10V20]

    async def test_damaged_table_is_not_believed(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        unit.replies[b""] = self.IN_SLPM
        unit.replies[b"??D*"] = self.table_in_slpm()
        with pytest.raises(AlicatError, match="data frame"):
            await device.poll()
        bus.let_pass_next()
        bus.change_next(lambda reply: reply.replace(b"Mass Flow ", b"Mass Vlow "))
        with pytest.raises(AlicatError, match="data frame"):
            await device.poll()
        reading = await device.poll()
        assert (reading.values["Mass_Flow"], reading.units["Mass_Flow"]) == (0.1, "SLPM")
        assert [event.kind for event in events] == [EventKind.FORMAT_CHANGED]

    async def test_unit_that_changes_between_table_and_frame_is_noticed(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        tables = [FORMAT_10V20, self.table_in_slpm()]

        def table(command: bytes) -> list[bytes]:
            unit.replies[b""] = self.IN_SLPM
            return tables.pop(0) if len(tables) > 1 else tables[0]

        unit.replies[b"??D*"] = table
        await device.refresh_data_frame_format()
        reading = await device.poll()
        assert (reading.values["Mass_Flow"], reading.units["Mass_Flow"]) == (0.1, "SLPM")

    async def test_unit_that_changes_while_the_instrument_is_opened_is_noticed(self) -> None:
        unit = controller()
        tables = [FORMAT_10V20, self.table_in_slpm()]

        def table(command: bytes) -> list[bytes]:
            unit.replies[b""] = self.IN_SLPM
            return tables.pop(0) if len(tables) > 1 else tables[0]

        unit.replies[b"??D*"] = table
        device, _, _ = await opened(unit)
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    @pytest.mark.parametrize(
        ("row", "damage"),
        [
            (b"005 Mass Flow ", b"004 Mass Flow "),
            (b"005 Mass Flow ", b"005 Mass Vlow "),
            (b"002 02 `C", b"002 02 `K"),
            (b"7/2 012 02 CCM", b"7/6 012 02 CCM"),
        ],
    )
    async def test_table_with_one_damaged_byte_is_read_again_at_opening(
        self, row: bytes, damage: bytes
    ) -> None:
        unit = controller()
        damaged = [line.replace(row, damage) for line in FORMAT_10V20]
        tables = [damaged, FORMAT_10V20]
        unit.replies[b"??D*"] = lambda command: tables.pop(0) if len(tables) > 1 else tables[0]
        device, _, _ = await opened(unit)
        assert device.data_frame_format.fields[3].name == "Mass_Flow"
        assert device.data_frame_format.fields[3].statistic is Statistic.MASS_FLOW
        assert device.data_frame_format.fields[1].unit_label == "°C"
        assert device.data_frame_format.fields[2].decimals == 2

    async def test_full_scale_in_another_unit_has_the_table_read_again_at_opening(self) -> None:
        unit = controller()
        tables = [
            FORMAT_10V20,
            [row.replace(b"012 02 SCCM", b"007 02 SLPM") for row in FORMAT_10V20],
        ]
        unit.replies[b"??D*"] = lambda command: tables.pop(0) if len(tables) > 1 else tables[0]
        unit.replies[b"FPF 5"] = b"A +000.50 07 SLPM"
        device, _, _ = await opened(unit)
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_no_reading_is_labelled_until_the_changed_format_is_read(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit, config=AlicatConfig(unit_check_s=1e-9))
        show_in_slpm(unit)
        table, unit.replies[b"??D*"] = unit.replies[b"??D*"], None
        for _ in range(2):
            with pytest.raises(AlicatTimeoutError):
                await device.poll()
        assert b"A" not in bus.commands
        unit.replies[b"??D*"] = table
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_damaged_answer_is_no_change_of_unit(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit, config=AlicatConfig(unit_check_s=1e-9))
        bus.change_next(lambda reply: reply.replace(b"SCCM", b"SBCM"))
        assert (await device.poll()).units["Mass_Flow"] == "SCCM"
        assert events == []

    async def test_table_that_never_comes_twice_alike_is_refused(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        numbers = count(100)
        unit.replies[b"??D*"] = lambda command: [
            row.replace(b"SCCM", b"X%d" % next(numbers)) for row in FORMAT_10V20
        ]
        with pytest.raises(AlicatParseError, match="differently each of 5 times"):
            await device.refresh_data_frame_format()

    async def test_change_that_another_task_has_seen_outlasts_a_cancelled_refresh(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        refresh = anyio.CancelScope()

        def setpoint(command: bytes) -> bytes:
            show_in_slpm(unit)
            unit.replies[b""] = cancelling
            return b"A +000.00 +000.10 07 SLPM"

        def cancelling(command: bytes) -> None:
            # Of the refresh, which asks for a frame after its first table.
            unit.replies[b""] = unit.counting_poll
            refresh.cancel()

        unit.replies[b"LS*"] = setpoint

        began = anyio.Event()

        async def read_the_format() -> None:
            began.set()
            with refresh:
                await device.refresh_data_frame_format()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_the_format)
            await began.wait()
            await device.setpoint()
        assert refresh.cancelled_caught
        assert (await device.poll()).units["Mass_Flow_Setpt"] == "SLPM"

    async def test_refresh_reads_the_format_although_another_one_was_cancelled(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        first = anyio.CancelScope()

        def table(command: bytes) -> None:
            show_in_slpm(unit)
            first.cancel()

        unit.replies[b"??D*"] = table

        began = anyio.Event()

        async def read_the_format() -> None:
            began.set()
            with first:
                await device.refresh_data_frame_format()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_the_format)
            await began.wait()
            await device.refresh_data_frame_format()
        assert first.cancelled_caught
        assert bus.commands.count(b"A??D*") >= 2
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_reading_that_was_asked_before_the_columns_changed_is_asked_again(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)

        async def refresh() -> None:
            await device.refresh_data_frame_format()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresh)
            await anyio.lowlevel.checkpoint()
            reading = await device.poll()
        assert reading.units["Mass_Flow"] == "SLPM"
        assert bus.commands[-1] == b"A"


class TestLetterlessAnswers:
    async def test_late_frame_of_another_unit_is_not_taken_for_the_answer(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+014.62 +003.00"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        bus.hold_next("B")
        with pytest.raises(AlicatTimeoutError):
            await other.poll()
        bus.commands.clear()
        measured = await device.request(["abs_press", "mass_flow"])
        assert measured.values == {Statistic.ABS_PRESS: 14.62, Statistic.MASS_FLOW: 3.0}
        assert bus.commands == [b"BVE", b"ADV 1 2 5"]

    async def test_unit_that_is_switched_off_does_not_prevent_the_question(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+014.62"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        del bus.units[b"B"]
        with pytest.raises(AlicatTimeoutError):
            await other.poll()
        assert (await device.request(["abs_press"])).values == {Statistic.ABS_PRESS: 14.62}

    async def test_answer_without_a_letter_that_comes_late_is_skipped(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+099.99 +099.99 +099.99"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        bus.hold_next("A")
        with pytest.raises(AlicatTimeoutError):
            await device.client.exchange(b"ADV 1 2 3 5\r", bytes.split, letterless=True)
        second.replies[b""] = lambda command: (bus.release("A"), second.counting_poll(command))[1]
        # The first frame proved the format.
        assert (await other.poll()).values["Mass_Flow"] == 2.0

    async def test_measured_values_must_be_as_many_as_were_asked_for(self) -> None:
        unit = controller()
        unit.replies[b"DV*"] = b"+014.62"
        device, _, _ = await opened(unit)
        with pytest.raises(Exception, match="values of 2 statistics"):
            await device.request(["abs_press", "mass_flow"])


class TestGates:
    async def test_command_that_the_firmware_lacks_is_not_sent(self) -> None:
        device, bus, _ = await opened(old_controller())
        with pytest.raises(AlicatFirmwareError, match=r"5v12.*gas_select") as caught:
            await device.gas()
        assert caught.value.required_min is not None
        with pytest.raises(AlicatFirmwareError):
            await device.loop_control_variable()
        assert bus.commands == []

    async def test_command_for_controllers_is_not_sent_to_a_meter(self) -> None:
        bus = ScriptedBus(meter())
        device = await open_device(bus, timeout=TIMEOUT)
        bus.commands.clear()
        from penstock.alicat.commands import HoldValvesRequest

        with pytest.raises(AlicatUnsupportedCommandError, match="flow_meter"):
            await device.execute(Commands.HOLD_VALVES, HoldValvesRequest())
        assert bus.commands == []

    async def test_command_for_missing_hardware_is_not_sent(self) -> None:
        device, bus, _ = await opened(controller())
        with pytest.raises(AlicatMissingHardwareError, match=r"Capability\.DISPLAY"):
            await device.lock_display()
        assert bus.commands == []

    async def test_what_cannot_be_undone_is_not_sent_unconfirmed(self) -> None:
        unit = controller()
        unit.replies[b"T 2"] = FRAME_10V20
        device, bus, _ = await opened(unit)
        for refused in (device.hold_valves_closed, device.totalizer_reset):
            with pytest.raises(AlicatValidationError, match="confirm=True"):
                await refused()
        assert bus.commands == []
        await device.totalizer_reset(TotalizerId.SECOND, confirm=True)
        assert bus.commands == [b"AT 2"]

    async def test_question_is_asked_twice_and_a_change_is_sent_once(self) -> None:
        unit = controller()
        unit.replies[b"GS*"] = b"A 8 N2 Nitrogen"
        device, bus, _ = await opened(unit)
        bus.drop_next()
        assert (await device.gas()).label == "N2"
        bus.commands.clear()
        bus.drop_next()
        with pytest.raises(AlicatTimeoutError):
            await device.gas("Ar")
        assert bus.commands == [b"AGS 1"]

    async def test_writes_to_the_eeprom_are_counted_warned_of_and_limited(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        unit = controller()
        unit.replies[b"GS*"] = b"A 8 N2 Nitrogen"
        config = AlicatConfig(save_rate_warn_per_min=1, save_rate_limit_per_min=2)
        device, bus, _ = await opened(unit, config=config)
        with caplog.at_level(logging.WARNING, "penstock.alicat"):
            await device.gas("N2", save=True)
            assert "EEPROM" not in caplog.text
            await device.gas("N2", save=True)
            assert "2 writes to its EEPROM" in caplog.text
        with pytest.raises(AlicatValidationError, match="2 are allowed"):
            await device.session.execute(Commands.GAS_SELECT, GasSelectRequest("N2", save=True))
        await device.gas("N2")
        assert device.session.eeprom_writes == 2
        assert bus.commands == [b"AGS 8 1", b"AGS 8 1", b"AGS 8"]

    async def test_changes_are_told_and_questions_are_not(self) -> None:
        unit = controller()
        unit.replies[b"GS*"] = b"A 8 N2 Nitrogen"
        device, _, events = await opened(unit)
        await device.gas()
        await device.gas("N2")
        await device.setpoint(10)
        assert [(event.kind, event.message) for event in events] == [
            (EventKind.GAS, "gas_select: AGS 8"),
            (EventKind.SETPOINT, "setpoint: ALS 10.0"),
        ]


async def test_closed_device_is_not_asked() -> None:
    bus = ScriptedBus(controller())
    client = AlicatProtocolClient(ByteStreamTransport(bus), default_timeout=TIMEOUT)
    device = await open_device(client, timeout=TIMEOUT)
    await device.close()
    bus.commands.clear()
    with pytest.raises(AlicatConnectionError, match="closed"):
        await device.poll()
    assert bus.commands == []


async def test_snapshot_tells_what_is_known_without_asking() -> None:
    device, bus, _ = await opened(controller())
    shot = await device.snapshot()
    assert (shot.serial, shot.connected, shot.unit_id) == ("521641", True, "A")
    bus.lost = OSError("unplugged")
    with pytest.raises(AlicatConnectionError):
        await device.poll()
    assert not (await device.snapshot()).connected
    assert bus.commands == []


def test_settings_come_from_the_environment_and_nonsense_is_ignored() -> None:
    environ = {
        "ALICATLIB_DEFAULT_TIMEOUT_S": "0.25",
        "ALICATLIB_EAGER_TASKS": "yes",
        "ALICATLIB_DEFAULT_BAUDRATE": "fast",
        "ALICATLIB_WRITE_TIMEOUT_S": "nan",
    }
    assert config_from_env(environ=environ) == AlicatConfig(
        default_timeout_s=0.25, eager_tasks=True
    )
    assert config_from_env("X_", environ=environ) == AlicatConfig()


class TestCapabilities:
    async def test_what_is_stated_and_what_the_columns_show_is_told_apart(self) -> None:
        unit = controller()
        volumetric = b"004 Volu Flow                  s decimal     7/2 012 02 CCM"
        second = b"344 Second Press               s decimal     7/2 010 02 PSIA"
        unit.replies[b"??D*"] = [row.replace(volumetric, second) for row in FORMAT_10V20]
        device = await open_device(
            ScriptedBus(unit), timeout=TIMEOUT, assume_capabilities=Capability.DISPLAY
        )
        assert device.info.capabilities == Capability.DISPLAY | Capability.SECONDARY_PRESSURE
        assert dict(device.info.probe_report) == {
            Capability.DISPLAY: CapabilityEvidence.STATED,
            Capability.SECONDARY_PRESSURE: CapabilityEvidence.DATA_FRAME,
        }

    async def test_instrument_is_asked_for_what_it_can_be_asked_for(self) -> None:
        unit = controller()
        unit.replies[b"FPF 15"] = b"A +20.000 10 PSIA"
        for second_sensor in (b"FPF 344", b"FPF 352", b"FPF 360"):
            unit.replies[second_sensor] = b"A +0 1 ---"
        unit.replies[b"TC 1"] = b"?"
        device, _, _ = await opened(unit)
        assert not device.info.probe_report
        report = await device.probe_capabilities()
        assert report == {
            Capability.BAROMETER: CapabilityEvidence.PRESENT,
            Capability.SECONDARY_PRESSURE: CapabilityEvidence.ABSENT,
            Capability.TOTALIZER: CapabilityEvidence.ABSENT,
        }
        assert device.info.capabilities == Capability.BAROMETER

    async def test_what_the_user_states_is_not_taken_back(self) -> None:
        unit = controller()
        for question in (b"FPF 15", b"FPF 344", b"TC 1"):
            unit.replies[question] = b"?"
        device = await open_device(
            ScriptedBus(unit), timeout=TIMEOUT, assume_capabilities=Capability.TOTALIZER
        )
        report = await device.probe_capabilities()
        assert report[Capability.TOTALIZER] is CapabilityEvidence.STATED
        assert device.info.capabilities == Capability.TOTALIZER

    async def test_old_firmware_is_not_asked(self) -> None:
        bus = ScriptedBus(old_controller())
        device = await open_device(bus, timeout=TIMEOUT)
        bus.commands.clear()
        bus.units[b"A"].replies[b"FPF*"] = b"?"
        await device.probe_capabilities()
        assert not any(command.startswith(b"ATC") for command in bus.commands)
