"""Wait for a modem line in a test without knowing when the wait has begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from penstock.serial import CommEvent, SerialPort


async def event_during(
    port: SerialPort, change: Callable[[bool], Awaitable[None]], **lines: bool
) -> CommEvent:
    """Return the result of ``wait_modem_event(**lines)`` while ``change`` is called repeatedly.

    A single call could fall before the wait's first read of the lines and would not count.
    """
    events: list[CommEvent] = []

    async def wait() -> None:
        events.append(await port.wait_modem_event(**lines))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            state = False
            while not events:
                await change(state)
                state = not state
    return events[0]
