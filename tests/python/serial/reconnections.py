"""Short delays of a reconnecting port, and the events that it reports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from penstock.serial import (
    Backoff,
    ConnectionEvent,
    ReconnectingSerialPort,
)

__all__ = ["events_of", "happened", "quick"]


def quick() -> Backoff:
    return Backoff(first=0.001, longest=0.01)


@asynccontextmanager
async def events_of(port: ReconnectingSerialPort) -> AsyncIterator[list[ConnectionEvent]]:
    """Collect the connection events of ``port`` inside the ``with``."""
    events: list[ConnectionEvent] = []

    async def listen() -> None:
        async for event in port.events():
            events.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        yield events
        tasks.cancel_scope.cancel()


async def happened(events: list[ConnectionEvent], *kinds: str) -> None:
    """Wait until these events have arrived in this order, possibly with others in between."""
    with anyio.fail_after(30):
        while True:
            rest = iter([event.kind for event in events])
            if all(kind in rest for kind in kinds):
                return
            await anyio.lowlevel.checkpoint()
