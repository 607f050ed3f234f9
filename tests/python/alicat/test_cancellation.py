"""A task that is cancelled at any moment leaves the bus usable and the device as it really is.

On a virtual clock: each operation is cancelled at every step of its way, one step later each time,
until it ends before it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatProtocolClient,
    ByteStreamTransport,
    FlowController,
    TimeUnit,
    Transport,
    open_device,
)
from penstock.sim import Bus, MassFlowController, MemoryStream, VirtualClockLoop

from ..sim.poll_run import encoder, virtual_client_clock

STEP_S = 0.0007
#: Of operations that take a second or more.
LONG_STEP_S = 0.0091


class SlowStream(MemoryStream):
    """Takes a command in two pieces, as a port with a full buffer does."""

    async def send(self, item: bytes) -> None:
        for piece in (item[:1], item[1:]):
            await anyio.sleep(STEP_S)
            await super().send(piece)


@dataclass
class Bench:
    bus: Bus
    instrument: MassFlowController
    client: AlicatProtocolClient
    device: FlowController


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """A controller A beside a B on one line of 115200 baud."""
    loop = asyncio.get_running_loop()
    instruments = [MassFlowController(unit, clock=loop.time) for unit in "AB"]
    bus = Bus(instruments, baudrate=115200, clock=loop.time)

    async def opened_at(baudrate: int) -> Transport:
        return ByteStreamTransport(SlowStream(bus), baudrate=baudrate)

    client = AlicatProtocolClient(await opened_at(115200), reopen_at=opened_at)
    config = AlicatConfig(save_rate_limit_per_min=100_000)
    device = await open_device(client, unit_id="A", config=config)
    assert isinstance(device, FlowController)
    yield Bench(bus, instruments[0], client, device)
    await device.close()
    await client.aclose()


async def cancelled_after(seconds: float, operation: Callable[[], Awaitable[object]]) -> bool:
    """Run ``operation`` and cancel it after so many virtual seconds; whether it had not ended."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(operation())
    timer = loop.call_later(seconds, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return True
    finally:
        timer.cancel()
    return False


async def at_every_step(
    place: Bench,
    operation: Callable[[Bench, int], Awaitable[object]],
    check: Callable[[Bench], Awaitable[None]],
    seconds: float,
) -> None:
    step = 0
    while await cancelled_after(step * seconds, partial(operation, place, step)):
        await check(place)
        step += 1
        assert step < 1000
    await check(place)
    assert step > 3


async def next_reading_is_current(place: Bench) -> None:
    reading = await place.device.poll()
    number = place.instrument.polls
    values = [value for value in reading.values.values() if isinstance(value, float)]
    assert values == pytest.approx(encoder(1, place.instrument, 0)(number))


async def setpoint_is_the_instruments(place: Bench) -> None:
    assert (await place.device.setpoint()).requested == place.instrument.setpoint


async def device_has_its_letter(place: Bench) -> None:
    assert place.device.unit_id == place.instrument.unit_id
    await next_reading_is_current(place)


async def line_has_the_instruments_rate(place: Bench) -> None:
    assert place.client.transport.baudrate == place.bus.baudrate
    await next_reading_is_current(place)


async def nothing_streams(place: Bench) -> None:
    assert not place.instrument.streaming
    await next_reading_is_current(place)


async def stream(place: Bench, step: int) -> None:
    async with place.device.stream(rate_hz=100) as readings:
        await anext(readings)
        await anext(readings)


def other(present: object, one: object, another: object) -> object:
    return another if present == one else one


Operation = Callable[[Bench, int], Awaitable[object]]
Check = Callable[[Bench], Awaitable[None]]
OPERATIONS: dict[str, tuple[Operation, Check]] = {
    "poll": (lambda place, step: place.device.poll(), next_reading_is_current),
    "setpoint": (
        lambda place, step: place.device.setpoint(1.0 + step),
        setpoint_is_the_instruments,
    ),
    "gas": (
        lambda place, step: place.device.gas("Ar" if step % 2 else "N2"),
        next_reading_is_current,
    ),
    "gas_list": (lambda place, step: place.device.gas_list(), next_reading_is_current),
    "request": (
        lambda place, step: place.device.request(["mass_flow", "abs_press"]),
        next_reading_is_current,
    ),
    "ramp_rate": (
        lambda place, step: place.device.ramp_rate(5.0, TimeUnit.SECOND),
        next_reading_is_current,
    ),
    "tare": (lambda place, step: place.device.tare_flow(), next_reading_is_current),
    "refresh": (
        lambda place, step: place.device.refresh_data_frame_format(),
        next_reading_is_current,
    ),
    "stream": (stream, nothing_streams),
    "rename": (
        lambda place, step: place.device.change_unit_id(
            str(other(place.instrument.unit_id, "A", "C")), confirm=True
        ),
        device_has_its_letter,
    ),
    "baud rate": (
        lambda place, step: place.device.change_baud_rate(
            int(str(other(place.bus.baudrate, 115200, 57600))), confirm=True
        ),
        line_has_the_instruments_rate,
    ),
}
LONG = ("rename", "baud rate", "gas_list")


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_may_be_cancelled_at_any_moment(name: str) -> None:
    operation, check = OPERATIONS[name]

    async def main() -> None:
        async with bench() as place:
            place.instrument.readings = encoder(1, place.instrument, 0)
            await at_every_step(place, operation, check, LONG_STEP_S if name in LONG else STEP_S)

    loop = VirtualClockLoop()
    with virtual_client_clock(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
