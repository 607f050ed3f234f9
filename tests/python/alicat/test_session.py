"""What is known of an instrument holds only while it is known to be that instrument."""

from __future__ import annotations

import logging

import anyio
import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatConnectionError,
    AlicatFirmwareError,
    AlicatIdentityError,
    AlicatMissingHardwareError,
    AlicatProtocolClient,
    AlicatTimeoutError,
    AlicatUnitChangedError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ByteStreamTransport,
    Commands,
    Device,
    DeviceEvent,
    EventKind,
    FlowController,
    SessionState,
    Statistic,
    TotalizerId,
    Transport,
    Unit,
    config_from_env,
    open_device,
)
from penstock.alicat.commands import GasSelectRequest

from .captures import FORMAT_5V12, FORMAT_10V20, FRAME_10V20, MADE_10V20
from .scripted_bus import ScriptedBus, controller, meter, old_controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio

TIMEOUT = 0.3


async def opened(
    *units: Wired, config: AlicatConfig | None = None
) -> tuple[FlowController, ScriptedBus, list[DeviceEvent]]:
    bus = ScriptedBus(*units)
    device = await open_device(bus, timeout=TIMEOUT, config=config)
    assert isinstance(device, FlowController)
    bus.commands.clear()
    return device, bus, told_by(device)


def told_by(device: Device) -> list[DeviceEvent]:
    events: list[DeviceEvent] = []
    device.subscribe(events.append)
    return events


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


class Lines:
    """The lines that a client gets one after another."""

    def __init__(self, *buses: ScriptedBus | Exception) -> None:
        self.buses = list(buses)
        self.opened = 0

    async def open(self) -> Transport:
        self.opened += 1
        bus = self.buses.pop(0)
        if isinstance(bus, Exception):
            raise bus
        return ByteStreamTransport(bus, label="line")

    async def client(self) -> AlicatProtocolClient:
        return AlicatProtocolClient(await self.open(), default_timeout=TIMEOUT, reconnect=self.open)


def with_serial_number(unit: Wired, serial: bytes) -> Wired:
    unit.replies[b"??M*"] = [row.replace(b"521641", serial) for row in MADE_10V20]
    return unit


class TestReturning:
    async def test_instrument_that_comes_back_is_asked_again(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        events = told_by(device)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await device.poll()
        assert device.session.state is SessionState.STALE
        assert (await device.poll()).values["Mass_Flow"] == 2.0  # one frame proved the format
        assert device.session.state is SessionState.OPERATIONAL
        assert [event.kind for event in events] == [
            EventKind.CONNECTION_LOST,
            EventKind.RECONNECTED,
        ]
        assert device.client.statistics.reconnects == 1
        assert first.closed

    async def test_another_instrument_in_its_place_is_neither_polled_nor_set(self) -> None:
        first = ScriptedBus(controller())
        second = ScriptedBus(with_serial_number(controller(), b"999999"))
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        assert isinstance(device, FlowController)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        with pytest.raises(AlicatIdentityError, match="serial number 999999, not 521641"):
            await device.setpoint(10)
        assert second.commands == [b"AVE", b"A??M*"]
        with pytest.raises(AlicatConnectionError, match="tried again in"):
            await device.poll()
        assert second.commands == [b"AVE", b"A??M*"]

    async def test_command_is_not_sent_to_a_line_that_was_opened_for_another_device(self) -> None:
        first, second = ScriptedBus(controller("A"), controller("B")), ScriptedBus(controller("B"))
        client = await Lines(first, second).client()
        one = await open_device(client, unit_id="A", timeout=TIMEOUT)
        other = await open_device(client, unit_id="B", timeout=TIMEOUT)
        assert isinstance(one, FlowController)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await other.poll()
        await other.poll()
        with pytest.raises(AlicatTimeoutError, match="no instrument answers as unit A"):
            await one.setpoint(10)
        assert not any(command.startswith(b"ALS") for command in second.commands)

    async def test_line_that_cannot_be_opened_is_not_tried_at_every_poll(self) -> None:
        first = ScriptedBus(controller())
        lines = Lines(first, OSError("no such port"))
        device = await open_device(await lines.client(), timeout=TIMEOUT)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await device.poll()
        with pytest.raises(AlicatConnectionError, match="no such port"):
            await device.poll()
        for _ in range(3):
            with pytest.raises(AlicatConnectionError, match="tried again in"):
                await device.poll()
        assert lines.opened == 2

    async def test_device_that_was_given_an_open_stream_stays_lost(self) -> None:
        device, bus, _ = await opened(controller())
        bus.lost = OSError("unplugged")
        for _ in range(2):
            with pytest.raises(AlicatConnectionError, match="open the device again"):
                await device.poll()

    async def test_question_for_an_earlier_line_is_not_sent(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        client = await Lines(first, second).client()
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await client.query_line(b"AVE\r")
        await client.reopen()
        with pytest.raises(AlicatConnectionError, match="opened again"):
            await client.exchange(b"ALS 10\r", bytes, generation=0)
        assert second.commands == []

    async def test_closed_client_is_not_opened_again(self) -> None:
        first = ScriptedBus(controller())
        lines = Lines(first)
        client = await lines.client()
        await client.aclose()
        with pytest.raises(AlicatConnectionError, match="closed"):
            await client.reopen()
        assert lines.opened == 1

    async def test_unit_that_was_silent_identifies_itself_before_it_is_asked_again(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        answering = bus.units.pop(b"A")
        for _ in range(3):
            with pytest.raises(AlicatTimeoutError):
                await device.poll()
        assert [event.kind for event in events] == [EventKind.CONNECTION_LOST]
        bus.units[b"A"] = answering
        bus.commands.clear()
        await device.poll()
        assert bus.commands[0] == b"AVE"
        assert [event.kind for event in events][-1] is EventKind.RECONNECTED

    async def test_two_tasks_have_a_returning_instrument_identified_once(self) -> None:
        first, second = ScriptedBus(controller()), ScriptedBus(controller())
        device = await open_device(await Lines(first, second).client(), timeout=TIMEOUT)
        first.lost = OSError("unplugged")
        with pytest.raises(AlicatConnectionError):
            await device.poll()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(device.poll)
        assert second.commands.count(b"AVE") == 1


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
