"""What is known of an instrument holds only while it is known to be that instrument."""

from __future__ import annotations

import logging

import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatConnectionError,
    AlicatFirmwareError,
    AlicatMissingHardwareError,
    AlicatProtocolClient,
    AlicatTimeoutError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ByteStreamTransport,
    Capability,
    CapabilityEvidence,
    Commands,
    EventKind,
    TotalizerId,
    config_from_env,
    open_device,
)
from penstock.alicat.commands import GasSelectRequest

from .captures import FORMAT_10V20, FRAME_10V20
from .opened import TIMEOUT, opened
from .scripted_bus import ScriptedBus, controller, meter, old_controller

pytestmark = pytest.mark.anyio


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
