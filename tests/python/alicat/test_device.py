from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatFirmwareError,
    AlicatParseError,
    AlicatTimeoutError,
    AlicatValidationError,
    Capability,
    FieldSchema,
    FirmwareVersion,
    FlowController,
    Statistic,
    Unit,
    open_device,
)
from penstock.alicat._instrument.reading import utc_from_unix_ns

from .captures import FORMAT_10V20, FRAME_10V20
from .scripted_bus import ScriptedBus, controller, middle_controller, old_controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio

TIMEOUT = 0.1


async def opened(
    unit: Wired, *, assume: Capability = Capability.NONE
) -> tuple[FlowController, ScriptedBus]:
    bus = ScriptedBus(unit)
    device = await open_device(bus, timeout=TIMEOUT, assume_capabilities=assume)
    assert isinstance(device, FlowController)
    bus.commands.clear()
    return device, bus


async def test_reading_has_values_units_status_and_ordered_stamps() -> None:
    unit = controller()
    device, _ = await opened(unit)
    unit.replies[b""] = FRAME_10V20 + b" HLD MOV"
    before = datetime.now(UTC)
    reading = await device.poll()
    after = datetime.now(UTC)
    assert list(reading.values) == [field.name for field in device.field_schema()]
    assert reading.units == {
        "Abs_Press": "PSIA",
        "Flow_Temp": "°C",
        "Volu_Flow": "CCM",
        "Mass_Flow": "SCCM",
        "Mass_Flow_Setpt": "SCCM",
    }
    assert reading.status == {"HLD", "MOV"}
    assert reading.requested_monotonic_ns <= reading.monotonic_ns == reading.t_mono_ns
    assert reading.latency_s >= 0
    slack = timedelta(microseconds=1)
    assert before - slack <= reading.requested_at <= reading.received_at <= after
    assert reading.received_at.tzinfo is UTC


async def test_reading_is_frozen() -> None:
    device, _ = await opened(controller())
    reading = await device.poll()
    with pytest.raises(AttributeError):
        reading.unit_id = "B"  # type: ignore[misc]
    with pytest.raises(TypeError):
        reading.values["Mass_Flow"] = 0.0  # type: ignore[index]


async def test_reading_is_asked_by_name_and_by_statistic() -> None:
    device, _ = await opened(controller())
    reading = await device.poll()
    assert reading.get_float("Abs_Press") == 14.62
    assert reading.get_float("Gas") is None
    assert reading.get_statistic(Statistic.ABS_PRESS) == 14.62
    assert reading.get_statistic(Statistic.DIFF_PRESS) is None
    assert reading.as_dict()["status"] == ""


def test_times_are_exact() -> None:
    assert utc_from_unix_ns(1_763_687_225_123_456_789) == datetime(
        2025, 11, 21, 1, 7, 5, 123456, tzinfo=UTC
    )


async def test_schema_is_known_before_the_first_reading() -> None:
    device, bus = await opened(controller())
    assert device.field_schema()[3] == FieldSchema("Mass_Flow", "float", "SCCM")
    assert bus.commands == []


async def test_poll_sends_the_letter_alone() -> None:
    device, bus = await opened(controller())
    await device.poll()
    assert bus.commands == [b"A"]


async def test_new_gas_mix_is_read_a_second_time_before_it_is_believed() -> None:
    unit = controller()
    device, bus = await opened(unit)
    unit.replies[b""] = FRAME_10V20.replace(b"    N2", b"  Mix7")
    assert (await device.poll()).values["Gas"] == "Mix7"
    assert bus.commands.count(b"A") == 2
    bus.commands.clear()
    assert (await device.poll()).values["Gas"] == "Mix7"
    assert bus.commands == [b"A"]


async def test_damaged_gas_name_does_not_get_through() -> None:
    device, bus = await opened(controller())
    bus.change_next(lambda reply: reply.replace(b"N2", b"Nr"))
    assert (await device.poll()).values["Gas"] == "N2"


async def test_setpoint_is_set_and_read_back() -> None:
    device, bus = await opened(controller())
    state = await device.setpoint(100)
    assert bus.commands == [b"ALS", b"ALS 100.0"]
    assert (state.requested, state.unit, state.unit_label) == (100.0, Unit.SCCM, "SCCM")
    assert state.accepted
    assert (await device.setpoint()).requested == 100.0
    assert bus.commands[-1] == b"ALS"


async def test_small_setpoint_is_sent_without_an_exponent() -> None:
    device, bus = await opened(controller())
    await device.setpoint(1e-05)
    assert bus.commands == [b"ALS", b"ALS 0.00001"]


async def test_setpoint_that_the_instrument_ignores_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unit = controller()
    device, _ = await opened(unit)
    unit.replies[b"LS*"] = b"A +000.00 +000.00 12 SCCM"
    state = await device.setpoint(100)
    assert not state.accepted
    assert "analogue input" in caplog.text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (-1.0, "BIDIRECTIONAL"),
        (True, "number"),
    ],
)
async def test_impossible_setpoint_is_refused_before_anything_is_sent(
    value: float, reason: str
) -> None:
    device, bus = await opened(controller())
    with pytest.raises(AlicatValidationError, match=reason):
        await device.setpoint(value)
    assert bus.commands == []


async def test_setpoint_beyond_the_full_scale_is_refused_once_its_unit_is_proven() -> None:
    device, bus = await opened(controller())
    with pytest.raises(AlicatValidationError, match="full scale of 500 SCCM"):
        await device.setpoint(500.01)
    assert bus.commands == [b"ALS"]


async def test_bidirectional_controller_takes_negative_setpoints_to_its_full_scale() -> None:
    device, bus = await opened(controller(), assume=Capability.BIDIRECTIONAL)
    await device.setpoint(-500)
    assert bus.commands == [b"ALS", b"ALS -500.0"]
    with pytest.raises(AlicatValidationError):
        await device.setpoint(-501)


async def test_setpoint_unit_must_be_the_instruments() -> None:
    device, bus = await opened(controller())
    await device.setpoint(10, "SCCM")
    with pytest.raises(AlicatValidationError, match=r"in SCCM, not in SLPM"):
        await device.setpoint(10, Unit.SLPM)
    assert bus.commands == [b"ALS", b"ALS 10.0", b"ALS"]


async def test_setpoint_in_an_unheard_of_unit_is_refused() -> None:
    unit = controller()
    device, _ = await opened(unit)
    unit.replies[b"LS*"] = b"A +000.00 +010.00 12 SCCm"
    assert (await device.setpoint()).unit is Unit.SCCM
    unit.replies[b"LS*"] = b"A +000.00 +010.00 12 SxCM"
    with pytest.raises(AlicatParseError):
        await device.setpoint()


async def test_old_firmware_is_set_by_its_own_command_and_never_locked() -> None:
    device, bus = await opened(old_controller())
    state = await device.setpoint(75)
    assert bus.commands == [b"A??D*", b"A", b"AS 75.0"]
    assert (state.requested, state.unit) == (75.0, Unit.SCCM)
    assert state.reading is not None
    assert (await device.setpoint()).requested == 116.3
    assert not any(command.startswith(b"AL") for command in bus.commands)


async def test_old_firmware_is_bounded_by_its_table() -> None:
    device, bus = await opened(old_controller())
    with pytest.raises(AlicatValidationError, match="full scale of 500 SCCM"):
        await device.setpoint(501)
    assert bus.commands == [b"A??D*", b"A"]


async def test_firmware_8v_is_set_by_the_legacy_command() -> None:
    device, bus = await opened(middle_controller())
    state = await device.setpoint(20)
    assert bus.commands == [b"A??D*", b"A", b"AS 20.0"]
    assert state.requested == 20.0


async def test_modern_command_answered_by_a_frame_is_a_rejection() -> None:
    unit = controller()
    device, _ = await opened(unit)
    unit.replies[b"LS*"] = FRAME_10V20
    with pytest.raises(AlicatCommandRejectedError, match="data frame"):
        await device.setpoint(10)


async def test_gp_firmware_takes_no_setpoint() -> None:
    device, bus = await opened(old_controller())
    from dataclasses import replace

    device.session._info = replace(device.info, firmware=FirmwareVersion.parse("GP"))
    with pytest.raises(AlicatFirmwareError, match="GP"):
        await device.setpoint(10)
    with pytest.raises(AlicatFirmwareError, match="GP"):
        await device.full_scale(Statistic.MASS_FLOW)
    assert bus.commands == []


async def test_setpoint_whose_answer_is_lost_is_not_answered_by_the_next_one() -> None:
    device, bus = await opened(controller())
    bus.let_pass_next()
    bus.hold_next()
    with pytest.raises(AlicatTimeoutError):
        await device.setpoint(10)
    assert (await device.setpoint(20)).requested == 20.0
    assert (await device.poll()).values["Mass_Flow"] == 2.0


async def test_full_scale_is_asked_by_statistic() -> None:
    unit = controller()
    device, bus = await opened(unit)
    unit.replies[b"FPF 15"] = b"A +0 1 ---"
    full_scale = await device.full_scale("mass_flow")
    assert full_scale is not None
    assert full_scale.value == 500.0
    assert await device.full_scale(Statistic.BARO_PRESS) is None
    assert bus.commands == [b"AFPF 5", b"AFPF 15"]


async def test_refreshed_format_serves_the_next_poll() -> None:
    unit = controller()
    device, _ = await opened(unit)
    unit.replies[b"??D*"] = [row.replace(b"SCCM", b"SLPM") for row in FORMAT_10V20]
    await device.refresh_data_frame_format()
    assert (await device.poll()).units["Mass_Flow"] == "SLPM"


async def test_device_shows_what_it_is() -> None:
    device, _ = await opened(controller())
    assert "FlowController A MC-500SCCM-D" in repr(device)
