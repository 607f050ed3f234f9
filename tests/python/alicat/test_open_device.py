from __future__ import annotations

from datetime import date
from pathlib import Path

import anyio
import pytest

from penstock.alicat import (
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatParseError,
    AlicatProtocolClient,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
    ByteStreamTransport,
    Capability,
    Device,
    DeviceKind,
    FirmwareFamily,
    FlowController,
    FlowMeter,
    InvalidUnitIdError,
    Medium,
    PressureController,
    SerialSettings,
    Statistic,
    Unit,
    open_controller,
    open_device,
)

from .captures import FORMAT_10V20, FRAME_10V20, MADE_5V12, MADE_10V20
from .scripted_bus import ScriptedBus, controller, meter, middle_controller, old_controller
from .scripted_bus import Unit as Wired

pytestmark = pytest.mark.anyio

TIMEOUT = 0.1


async def test_controller_is_identified() -> None:
    async with await open_device(ScriptedBus(controller()), timeout=TIMEOUT) as device:
        assert type(device) is FlowController
        info = device.info
    assert (info.model, info.serial, info.software) == ("MC-500SCCM-D", "521641", "10v20.0-R24")
    assert (info.kind, info.media) == (DeviceKind.FLOW_CONTROLLER, Medium.GAS)
    assert info.firmware.family is FirmwareFamily.V10
    assert info.firmware_date == date(2025, 1, 9)
    assert info.manufacturer == "ALICAT SCIENTIFIC"
    full_scale = info.full_scale[Statistic.MASS_FLOW]
    assert (full_scale.value, full_scale.unit) == (500.0, Unit.SCCM)


async def test_opening_asks_only_what_it_needs_and_changes_nothing() -> None:
    bus = ScriptedBus(controller())
    async with await open_device(bus, timeout=TIMEOUT):
        assert bus.commands == [b"AVE", b"A??M*", b"A??D*", b"A", b"AFPF 5"]


async def test_opening_waits_for_nothing() -> None:
    """With a wire that answers at once and time-outs of an hour, opening still ends."""
    transport = ByteStreamTransport(ScriptedBus(controller()))
    client = AlicatProtocolClient(
        transport, default_timeout=3600, multiline_timeout=3600, idle_timeout=3600
    )
    with anyio.fail_after(10):
        await open_device(client, timeout=3600)


async def test_meter_is_a_meter_and_is_not_asked_for_its_setpoint() -> None:
    bus = ScriptedBus(meter())
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert type(device) is FlowMeter
        assert not hasattr(device, "setpoint")
        assert (await device.poll()).values["Mass_Flow"] == -0.034
    assert not any(b"L" in command for command in bus.commands)


async def test_old_firmware_with_the_legacy_table_is_opened() -> None:
    async with await open_device(ScriptedBus(old_controller()), timeout=TIMEOUT) as device:
        assert device.info.firmware.family is FirmwareFamily.V1_V7
        assert (await device.poll()).values["SetPoint"] == 116.3
        assert (await device.poll()).get_statistic(Statistic.MASS_FLOW) == 0.2


async def test_gp_firmware_that_knows_no_version_command_is_opened() -> None:
    made = [
        row.replace(b"M0", b"M").replace(b"Model Number", b"Mdl") + b"\x08\x08"
        for row in MADE_5V12[:9]
    ]
    unit = old_controller()
    unit.replies |= {b"VE": None, b"??M*": made}
    bus = ScriptedBus(unit)
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert device.info.firmware.family is FirmwareFamily.GP
        assert device.info.model == "MC-500SCCM-D"
        bus.hold_next()
        with pytest.raises(AlicatTimeoutError):
            await device.poll()
        # Without a version line, the manufacturing table is its proof.
        assert (await device.poll()).values["Gas"] == "N2"
        assert bus.commands[-3:] == [b"A", b"A??M*", b"A"]


async def test_version_answer_lost_once_is_asked_again() -> None:
    bus = ScriptedBus(controller())
    bus.drop_next()
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert device.info.firmware_date == date(2025, 1, 9)


async def test_nobody_there_names_port_unit_baud_rate_and_what_to_check() -> None:
    bus = ScriptedBus()
    transport = ByteStreamTransport(bus, label="/dev/ttyUSB7", baudrate=19200)
    with pytest.raises(AlicatTimeoutError) as caught:
        await open_device(transport, unit_id="K", timeout=0.02)
    text = str(caught.value)
    for part in ("unit K", "/dev/ttyUSB7", "19200 baud", "check", "powered"):
        assert part in text
    assert bus.closed


async def test_answer_of_another_unit_only_is_told_as_that() -> None:
    bus = ScriptedBus(controller())
    bus.units[b"A"].replies[b"VE"] = b"Q   10v20.0-R24 Jan  9 2025,15:04:07"
    bus.units[b"A"].replies[b"??M*"] = [b"Q" + row[1:] for row in MADE_10V20]
    with pytest.raises(AlicatUnitIdMismatchError, match="unit Q answered"):
        await open_device(bus, timeout=TIMEOUT)


async def test_stale_lines_on_the_wire_do_not_disturb_the_opening() -> None:
    bus = ScriptedBus(controller())
    bus.arrive(FRAME_10V20 + b"\rA ?\rA +0")
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert device.info.model == "MC-500SCCM-D"
        assert (await device.poll()).values["Mass_Flow"] == 2.0


async def test_reply_late_from_before_the_opening_does_not_disturb_it() -> None:
    bus = ScriptedBus(controller())
    bus.units[b"A"].held.append(FRAME_10V20 + b"\r?\r")
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert device.info.software == "10v20.0-R24"


class Streaming(Wired):
    """A controller that somebody left streaming, until it is stopped."""

    def __init__(self, stop: bytes) -> None:
        super().__init__("A", {})
        self.stop = stop


async def open_streaming(stop: bytes, *, recover: bool = True) -> tuple[ScriptedBus, Device]:
    bus = ScriptedBus()
    frame = b"  " + FRAME_10V20[2:] + b"\r"
    stopped = anyio.Event()
    plain_send = bus.send

    async def send(item: bytes) -> None:
        await plain_send(item)
        if item == stop:
            bus.units[b"A"] = controller()
            stopped.set()

    bus.send = send  # type: ignore[method-assign]

    async def stream() -> None:
        while not stopped.is_set():
            bus.arrive(frame)
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream)
        try:
            return bus, await open_device(bus, timeout=TIMEOUT, recover_from_stream=recover)
        finally:
            tasks.cancel_scope.cancel()


async def test_streaming_instrument_is_stopped_and_opened() -> None:
    bus, device = await open_streaming(b"@@ A\r")
    assert device.info.model == "MC-500SCCM-D"
    assert (await device.poll()).values["Gas"] == "N2"
    assert [c for c in bus.commands if c.startswith(b"@")] == [b"@@ A"]


async def test_streaming_instrument_is_left_alone_where_that_is_wished() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await open_streaming(b"@@ A\r", recover=False)
    assert caught.group_contains(AlicatStreamingModeError)


async def test_polling_instrument_is_never_sent_the_stop() -> None:
    bus = ScriptedBus(controller())
    await open_device(bus, timeout=TIMEOUT)
    assert not any(command.startswith(b"@") for command in bus.commands)


async def test_table_that_lost_a_row_is_read_again() -> None:
    bus = ScriptedBus(controller())
    bus.let_pass_next()
    bus.let_pass_next()
    bus.change_next(lambda reply: reply.replace(FORMAT_10V20[4] + b"\r", b""))
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert len(device.field_schema()) == 6
    assert bus.commands.count(b"A??D*") == 2


@pytest.mark.parametrize("question", [1, 2])
async def test_table_with_a_pause_in_it_is_read_whole(question: int) -> None:
    bus = ScriptedBus(controller())
    for _ in range(question):
        bus.let_pass_next()
    bus.pause_next(3)
    async with await open_device(bus, timeout=TIMEOUT) as device:
        assert (device.info.model, device.info.calibrated_by) == ("MC-500SCCM-D", "BL")
        assert (await device.poll()).values["Mass_Flow"] == 2.0
    asked = [b"AVE", b"A??M*", b"A??D*", b"A", b"AFPF 5", b"A"]
    asked.insert(question + 1, b"AVE")
    assert bus.commands == asked


async def test_manufacturing_table_that_is_cut_short_is_no_proof() -> None:
    unit = old_controller()
    unit.replies |= {b"VE": None, b"??M*": MADE_5V12[:6]}
    bus = ScriptedBus(unit)
    async with await open_device(bus, timeout=TIMEOUT) as device:
        bus.hold_next()
        with pytest.raises(AlicatTimeoutError):
            await device.poll()
        assert (await device.poll()).values["Gas"] == "N2"
        assert bus.commands[-2:] == [b"A", b"A"]


async def test_frame_that_does_not_fit_its_table_is_refused() -> None:
    unit = controller()
    unit.replies[b""] = FRAME_10V20.replace(b"+078.95 ", b"")
    with pytest.raises(AlicatParseError, match="6 columns"):
        await open_device(ScriptedBus(unit), timeout=TIMEOUT)


async def test_unknown_model_is_classified_by_its_columns() -> None:
    unit = controller()
    unit.replies[b"??M*"] = [row.replace(b"MC-500", b"ZZ-500") for row in MADE_10V20]
    async with await open_device(ScriptedBus(unit), timeout=TIMEOUT) as device:
        assert type(device) is FlowController


async def test_model_hint_serves_an_instrument_without_a_table() -> None:
    unit = controller()
    unit.replies[b"??M*"] = b"?"
    device = await open_device(ScriptedBus(unit), timeout=TIMEOUT, model_hint="PCD-100PSIA-D")
    assert type(device) is PressureController
    assert device.info.model == "PCD-100PSIA-D"


async def test_assumptions_of_the_caller_are_kept() -> None:
    device = await open_device(
        ScriptedBus(controller()),
        timeout=TIMEOUT,
        assume_capabilities=Capability.BIDIRECTIONAL,
        assume_media=Medium.LIQUID,
    )
    assert device.info.capabilities == Capability.BIDIRECTIONAL
    assert device.info.media == Medium.LIQUID


async def test_refused_full_scale_does_not_fail_the_opening() -> None:
    unit = controller()
    unit.replies[b"FPF 5"] = b"\r?"
    device = await open_device(ScriptedBus(unit), timeout=TIMEOUT)
    assert device.info.full_scale == {}


async def test_stream_is_closed_with_its_device_and_a_client_is_not() -> None:
    bus = ScriptedBus(controller())
    device = await open_device(bus, timeout=TIMEOUT)
    await device.close()
    await device.close()
    assert bus.closed
    shared = ScriptedBus(middle_controller())
    client = AlicatProtocolClient(ByteStreamTransport(shared), default_timeout=TIMEOUT)
    async with await open_device(client, timeout=TIMEOUT):
        pass
    assert not shared.closed


async def test_instrument_that_refuses_its_tables_is_there() -> None:
    unit = controller()
    del unit.replies[b"VE"]
    unit.replies[b"??M*"] = b"?"
    device = await open_device(ScriptedBus(unit), timeout=0.02, model_hint="MC-500SCCM-D")
    assert device.info.model == "MC-500SCCM-D"
    assert device.info.serial is None


async def test_cancelled_opening_closes_the_stream() -> None:
    bus = ScriptedBus()
    with anyio.move_on_after(0.01):
        await open_device(bus, timeout=60)
    assert bus.closed


@pytest.mark.parametrize("unit_id", ["", "AB", "1", "@", "Ä"])
async def test_unit_id_must_be_a_letter(unit_id: str) -> None:
    with pytest.raises(InvalidUnitIdError, match="A to Z"):
        await open_device(ScriptedBus(), unit_id=unit_id)


async def test_unit_id_may_be_lower_case() -> None:
    device = await open_device(ScriptedBus(controller()), unit_id="a", timeout=TIMEOUT)
    assert device.unit_id == "A"


async def test_missing_port_names_it_and_the_remedy(tmp_path: Path) -> None:
    missing = tmp_path / "ttyNONE"
    with pytest.raises(
        AlicatConnectionError, match=r"ttyNONE does not exist; check the name and that"
    ):
        await open_device(missing)


async def test_file_that_is_no_port_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "notes.txt"
    plain.write_text("x")
    with pytest.raises((AlicatConnectionError, AlicatConfigurationError), match=r"notes\.txt"):
        await open_device(plain)


async def test_settings_of_another_port_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AlicatConfigurationError, match="state the same port"):
        await open_device("/dev/ttyS0", serial=SerialSettings("/dev/ttyS1"))
    with pytest.raises(AlicatConfigurationError, match="belong to a port path"):
        await open_device(ScriptedBus(), serial=SerialSettings("/dev/ttyS1"))


async def test_settings_that_no_port_can_have_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "tty")
    for wrong in (
        SerialSettings(path, baudrate=0),
        SerialSettings(path, bytesize=9),
        SerialSettings(path, parity="maybe"),
    ):
        with pytest.raises(AlicatConfigurationError, match="tty"):
            await open_device(path, serial=wrong)


async def test_a_controller_is_opened_as_one() -> None:
    async with await open_controller(ScriptedBus(controller()), timeout=TIMEOUT) as device:
        assert isinstance(device, FlowController)


async def test_a_meter_that_is_opened_as_a_controller_is_refused_and_closed() -> None:
    bus = ScriptedBus(meter())
    with pytest.raises(AlicatConfigurationError, match=r"instrument A \(model M.*open_device"):
        await open_controller(bus, timeout=TIMEOUT)
    assert bus.closed
