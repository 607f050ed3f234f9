"""An instrument that streams is read without loss of order, and is left as it was."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from penstock.alicat import (
    AlicatConnectionError,
    AlicatFirmwareError,
    AlicatParseError,
    AlicatStreamingModeError,
    AlicatValidationError,
    Device,
    OverflowPolicy,
    SerialSettings,
    open_device,
)
from penstock.sim import Bus, MassFlowController, open_pty

from .scripted_bus import ScriptedBus, controller, old_controller

pytestmark = pytest.mark.anyio

TIMEOUT = 0.3


async def opened() -> tuple[Device, ScriptedBus]:
    bus = ScriptedBus(controller())
    bus.units[b"A"].replies[b"@ @"] = None
    bus.units[b"A"].replies[b"NCS*"] = b"A 50"
    device = await open_device(bus, timeout=TIMEOUT)
    bus.commands.clear()
    return device, bus


def frame(number: int, prefix: bytes = b"  ") -> bytes:
    return prefix + b"+014.62 +021.89 +000.00 +%06.2f +078.95     N2\r" % number


@pytest.mark.parametrize("prefix", [b"  ", b"@ "])
async def test_streamed_frames_are_readings_of_the_unit(prefix: bytes) -> None:
    device, bus = await opened()
    async with device.stream(rate_hz=20) as stream:
        assert bus.commands == [b"ANCS 50", b"A@ @"]
        bus.arrive(frame(1, prefix) + frame(2, prefix))
        readings = [await anext(stream), await anext(stream)]
    assert [(r.unit_id, r.values["Mass_Flow"]) for r in readings] == [("A", 1.0), ("A", 2.0)]
    assert readings[0].units["Mass_Flow"] == "SCCM"
    assert readings[0].monotonic_ns <= readings[1].monotonic_ns
    assert bus.commands[-1] == b"@@ A"
    assert (await device.poll()).values["Mass_Flow"] == 2.0  # the unit's second poll


async def test_frames_that_come_after_the_stop_are_passed_over() -> None:
    device, bus = await opened()
    async with device.stream():
        pass
    bus.change_next(lambda reply: frame(7) + frame(8) + frame(9) + reply)
    assert (await device.poll()).values["Mass_Flow"] != 7.0
    assert bus.commands[-2:] == [b"AVE", b"A"]
    bus.commands.clear()
    await device.poll()
    assert bus.commands == [b"A"]


async def test_nothing_else_is_asked_on_the_port_meanwhile() -> None:
    device, bus = await opened()
    async with device.stream():
        with pytest.raises(AlicatStreamingModeError, match="leave its stream"):
            await device.poll()
        with pytest.raises(AlicatStreamingModeError):
            async with device.stream():
                pass
        assert bus.commands == [b"A@ @"]


async def test_stream_is_stopped_when_its_user_is_cancelled() -> None:
    device, bus = await opened()
    async with anyio.create_task_group() as tasks:

        async def use() -> None:
            async with device.stream() as stream:
                tasks.cancel_scope.cancel()
                await anext(stream)

        tasks.start_soon(use)
    assert bus.commands[-1] == b"@@ A"
    await device.poll()


async def fill(bus: ScriptedBus, first: int, last: int) -> None:
    for number in range(first, last + 1):
        bus.arrive(frame(number))
    while bus.input_waiting():
        await anyio.lowlevel.checkpoint()
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("policy", "kept"),
    [(OverflowPolicy.DROP_OLDEST, [4.0, 5.0]), (OverflowPolicy.DROP_NEWEST, [1.0, 2.0])],
)
async def test_full_buffer_drops_and_counts(policy: OverflowPolicy, kept: list[float]) -> None:
    device, bus = await opened()
    async with device.stream(overflow=policy, buffer_size=2) as stream:
        await fill(bus, 1, 5)
        assert [(await anext(stream)).values["Mass_Flow"] for _ in range(2)] == kept
        assert stream.dropped_frames == 3


async def test_full_buffer_that_blocks_loses_nothing() -> None:
    device, bus = await opened()
    async with device.stream(overflow=OverflowPolicy.BLOCK, buffer_size=1) as stream:
        for number in range(1, 6):
            bus.arrive(frame(number))
        values = [(await anext(stream)).values["Mass_Flow"] for _ in range(5)]
    assert values == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert stream.dropped_frames == 0


async def test_damaged_frame_is_skipped_or_raised() -> None:
    device, bus = await opened()
    async with device.stream() as stream:
        bus.arrive(b"  +014.62 +0.1\r" + frame(2))
        assert (await anext(stream)).values["Mass_Flow"] == 2.0
        assert stream.skipped_frames == 1
    async with device.stream(strict=True) as stream:
        bus.arrive(b"  +014.62 +0.1\r")
        with pytest.raises(AlicatParseError):
            await anext(stream)


async def test_lost_line_ends_the_stream_with_its_error() -> None:
    device, bus = await opened()
    async with device.stream() as stream:
        bus.lost = OSError("unplugged")
        bus.arrive(frame(1))
        assert (await anext(stream)).values["Mass_Flow"] == 1.0
        with pytest.raises(AlicatConnectionError, match="unplugged"):
            await anext(stream)


async def test_impossible_rate_and_old_firmware_are_refused() -> None:
    device, bus = await opened()
    for rate_hz in (0, -1, 1001, 0.001, float("nan")):
        with pytest.raises(AlicatValidationError):
            device.stream(rate_hz=rate_hz)
    with pytest.raises(AlicatValidationError):
        device.stream(buffer_size=0)
    old = await open_device(ScriptedBus(old_controller()), timeout=TIMEOUT)
    with pytest.raises(AlicatFirmwareError):
        async with old.stream(rate_hz=20):
            pass
    assert bus.commands == []


async def test_simulated_instrument_streams_and_stops() -> None:
    async with (
        open_pty(Bus([MassFlowController("A")], baudrate=115200)) as path,
        await open_device(path, serial=SerialSettings(path, baudrate=115200), timeout=5) as device,
    ):
        async with device.stream(rate_hz=100) as stream:
            for _ in range(5):
                assert (await anext(stream)).unit_id == "A"
        assert (await device.poll()).unit_id == "A"
        assert not device.client.in_debt("A")
