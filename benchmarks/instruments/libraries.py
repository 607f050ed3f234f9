"""The measured instrument libraries: how each opens and asks an instrument, in its own best way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.serial_ports.libraries import imported

OURS, LIB, NUMAT = "penstock", "alicatlib", "alicat"
#: Library -> the loops it is measured on.
LOOPS_OF = {OURS: ["penstock", "asyncio"], LIB: ["asyncio", "uvloop"], NUMAT: ["asyncio", "uvloop"]}
CONTENDERS = [f"{library}@{loop}" for library, loops in LOOPS_OF.items() for loop in loops]
COMMANDS = ("ve", "gs", "poll")
#: Seconds for a reply. One that is late on a busy machine is measured as late; it is no error.
PATIENCE = 5.0


def patience_of(library: str) -> dict[str, float]:
    """The argument for it; the other libraries are measured with their defaults."""
    return {"timeout": PATIENCE} if library == OURS else {}


@dataclass(frozen=True)
class Line:
    """How to reach an instrument."""

    port: str
    unit_id: str = "A"
    firmware: str = "10v20"
    baudrate: int = 115_200


@dataclass
class Asked:
    """An open instrument and one question to it, with the answer decoded."""

    ask: Callable[[], Awaitable[object]]
    close: Callable[[], Awaitable[object]]


async def prepare(library: str, command: str, line: Line) -> Asked:
    """Open the instrument and prepare one question; it is encoded once."""
    return await {OURS: _ours, LIB: _alicatlib, NUMAT: _alicat}[library](command, line)


async def _ours(command: str, line: Line) -> Asked:
    alicat = imported("penstock.alicat")
    commands = imported("penstock.alicat.commands")
    settings = alicat.SerialSettings(line.port, baudrate=line.baudrate)
    if command == "poll":
        device = await alicat.open_device(
            line.port, unit_id=line.unit_id, serial=settings, timeout=PATIENCE
        )
        return Asked(device.poll, device.close)
    transport = await imported("penstock.alicat.transport").open_serial_transport(settings)
    client = alicat.AlicatProtocolClient(transport, default_timeout=PATIENCE)
    context = commands.CommandContext(line.unit_id, alicat.FirmwareVersion.parse(line.firmware))
    catalogue = alicat.Commands
    spec = catalogue.VE_QUERY if command == "ve" else catalogue.GAS_SELECT
    request = commands.VeRequest() if command == "ve" else commands.GasSelectRequest()
    data = spec.encode(context, request)

    def decode(text: bytes) -> object:
        answer: object = spec.decode(text, request, context)
        return answer

    async def ask() -> object:
        return (await client.exchange(data, decode, reads=True)).value

    return Asked(ask, client.aclose)


async def _alicatlib(command: str, line: Line) -> Asked:
    alicatlib = imported("alicatlib")
    commands = imported("alicatlib.commands")
    transport = imported("alicatlib.transport")
    settings = transport.SerialSettings(line.port, baudrate=line.baudrate)
    if command == "poll":
        device = await alicatlib.open_device(line.port, unit_id=line.unit_id, serial=settings)
        return Asked(device.poll, device.close)
    serial = transport.SerialTransport(settings)
    await serial.open()
    client = imported("alicatlib.protocol").AlicatProtocolClient(serial)
    context = commands.DecodeContext(
        unit_id=line.unit_id,
        firmware=imported("alicatlib.firmware").FirmwareVersion.parse(line.firmware),
        capabilities=commands.Capability.NONE,
    )
    catalogue = commands.Commands
    spec = catalogue.VE_QUERY if command == "ve" else catalogue.GAS_SELECT
    request = commands.VeRequest() if command == "ve" else commands.GasSelectRequest()
    data = spec.encode(context, request)

    async def ask() -> object:
        return spec.decode(await client.query_line(data), context)

    return Asked(ask, serial.close)


async def _alicat(command: str, line: Line) -> Asked:
    device = imported("alicat").FlowController(line.port, unit=line.unit_id, baudrate=line.baudrate)

    async def version() -> object:
        device.firmware = None  # it keeps the first answer
        return await device.get_firmware()

    async def gas() -> object:
        # It has no such question; its client takes any.
        reply = await device.hw.write_and_read(f"{line.unit_id}GS")
        return reply.split(maxsplit=3)

    ask = {"ve": version, "gs": gas, "poll": device.get}[command]
    await ask()
    return Asked(ask, device.close)


async def open_and_close(library: str, line: Line) -> Callable[[], Awaitable[object]]:
    """Open and identify the instrument by its path; returns what closes it."""
    if library == NUMAT:
        device = imported("alicat").FlowController(
            line.port, unit=line.unit_id, baudrate=line.baudrate
        )
        await device.get()
        await device.get_firmware()
        close: Callable[[], Awaitable[object]] = device.close
        return close
    module = imported("penstock.alicat" if library == OURS else "alicatlib")
    settings_module = module if library == OURS else imported("alicatlib.transport")
    settings = settings_module.SerialSettings(line.port, baudrate=line.baudrate)
    opened = await module.open_device(
        line.port, unit_id=line.unit_id, serial=settings, **patience_of(library)
    )
    close = opened.close
    return close


@dataclass(frozen=True)
class Polled:
    """What polling many instruments came to, without their opening."""

    readings: int
    cpu_seconds: float


async def poll_all(library: str, lines: list[Line], rate_hz: float, seconds: float) -> Polled:
    """Poll every instrument at a rate for a time."""
    if library == NUMAT:
        return await _poll_all_by_hand(lines, rate_hz, seconds)
    if library == OURS:
        module, record = imported("penstock.alicat"), imported("penstock.record").record
        settings_of = module.SerialSettings
    else:
        module, record = imported("alicatlib"), imported("alicatlib.streaming").record
        settings_of = imported("alicatlib.transport").SerialSettings
    async with module.AlicatManager(error_policy=module.ErrorPolicy.RETURN) as manager:
        for number, line in enumerate(lines):
            settings = settings_of(line.port, baudrate=line.baudrate)
            await manager.add(
                f"d{number}",
                line.port,
                unit_id=line.unit_id,
                serial=settings,
                **patience_of(library),
            )
        cpu = time.process_time()
        async with record(manager, rate_hz=rate_hz, duration=seconds) as recording:
            readings = await _count(library, recording)
        return Polled(readings, time.process_time() - cpu)


async def _count(library: str, recording: Any) -> int:
    readings = 0
    if library == OURS:
        # A second's rows at a time, as its sinks take them.
        while (batch := await recording.next_batch(4096, 1.0)) is not None:
            readings += len(batch)
        return readings
    async for samples in recording.stream:
        readings += len(samples)
    return readings


async def _poll_all_by_hand(lines: list[Line], rate_hz: float, seconds: float) -> Polled:
    """It has no recorder: a task an instrument, that sleeps until each slot."""
    loop = asyncio.get_running_loop()
    flow_controller = imported("alicat").FlowController
    devices = [
        flow_controller(line.port, unit=line.unit_id, baudrate=line.baudrate) for line in lines
    ]
    for device in devices:
        await device.get()
    readings = 0

    async def poll(device: Any) -> None:
        nonlocal readings
        begin = loop.time()
        for slot in range(round(seconds * rate_hz)):
            await asyncio.sleep(begin + slot / rate_hz - loop.time())
            frame = await device.get()
            readings += bool(frame)

    cpu = time.process_time()
    await asyncio.gather(*(poll(device) for device in devices))
    polled = Polled(readings, time.process_time() - cpu)
    for device in devices:
        await device.close()
    return polled
