"""Eager tasks change when a task begins, and nothing of the order in which observers are told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import product

import pytest

import penstock
from penstock.alicat import AlicatConfig, AlicatProtocolClient, ByteStreamTransport, open_device

from .scripted_bus import ScriptedBus, controller

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="CPython has eager tasks from 3.12 on"
)

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "penstock": penstock.new_event_loop,
}


async def observed(*, eager: bool) -> list[str]:
    """What two observers, five tasks and the far end of the wire saw, in order."""
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    bus = ScriptedBus(controller("A"), controller("B"), controller("C"))
    client = AlicatProtocolClient(ByteStreamTransport(bus))
    config = AlicatConfig(eager_tasks=eager)
    devices = {
        unit: await open_device(client, unit_id=unit, config=config) for unit in ("A", "B", "C")
    }
    if eager:
        # From here on only: opening is the same either way.
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
    bus.commands.clear()
    for unit, observer in product(devices, ("first", "second")):
        devices[unit].subscribe(
            lambda event, note=f"{observer} of {unit}": seen.append(f"{note}: {event.kind}")
        )

    async def note(name: str, call: Awaitable[object]) -> None:
        await call
        seen.append(name)

    async with asyncio.TaskGroup() as tasks:
        for unit, device in devices.items():
            tasks.create_task(note(f"poll of {unit}", device.poll()))
        tasks.create_task(note("setpoint of B", devices["B"].setpoint(10.0)))  # type: ignore[attr-defined]
        tasks.create_task(note("setpoint of A", devices["A"].setpoint(20.0)))  # type: ignore[attr-defined]
        tasks.create_task(note("second poll of A", devices["A"].poll()))
    loop.set_task_factory(None)
    await client.aclose()
    return [*seen, *(command.decode() for command in bus.commands)]


@pytest.mark.parametrize("loop", LOOPS)
def test_observers_see_the_same_order_with_and_without_eager_tasks(loop: str) -> None:
    def run(*, eager: bool) -> list[str]:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            return runner.run(observed(eager=eager))

    ordinary = run(eager=False)
    assert len(ordinary) > 12
    assert run(eager=True) == ordinary
