"""A simulated bus behind a TCP port, as a serial device server offers it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream

from penstock.sim._line.background import running
from penstock.sim._line.bus import Bus
from penstock.sim._line.memory import MemoryStream
from penstock.sim._line.shared_line import SharedLine

__all__ = ["open_tcp"]

#: Seconds that a new client waits for the previous one to disconnect: a client that reconnects may
#: arrive before its old connection is seen as closed.
_HAND_OVER: Final = 0.25


@asynccontextmanager
async def open_tcp(
    bus: Bus | SharedLine, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Serve the bus on ``host``; yields the port number, which the system picks for 0.

    One client at a time has the line; further connections are closed, as by most device servers. A
    shared line gets a tap for each client. While the bus is unplugged by its faults, connections
    are closed. Raises OSError when the address cannot be bound.
    """
    line = anyio.Lock()
    inner = bus.bus if isinstance(bus, SharedLine) else bus
    opened = inner.clock()

    async def visit(client: SocketStream) -> None:
        plugged, change = inner.faults.plugged_after(inner.clock() - opened)
        if not plugged:
            return
        with anyio.move_on_after(math.inf if change is None else change) as until_unplugged:
            end = bus.tap() if isinstance(bus, SharedLine) else bus
            await _relay(MemoryStream(end, follow_unplug=False), client)
        if until_unplugged.cancelled_caught:
            inner.fault_log.add(inner.clock(), "unplug", "")

    async def serve(client: SocketStream) -> None:
        async with client:
            with anyio.move_on_after(_HAND_OVER):
                await line.acquire()
            if line.statistics().owner != anyio.get_current_task():
                return
            try:
                await visit(client)
            finally:
                line.release()

    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener, running(partial(listener.serve, serve)):
        yield int(listener.extra(SocketAttribute.local_port))


async def _relay(line: MemoryStream, client: SocketStream) -> None:
    async def answers() -> None:
        try:
            while True:
                await client.send(await line.receive())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            tasks.cancel_scope.cancel()

    async with line, anyio.create_task_group() as tasks:
        tasks.start_soon(answers)
        try:
            async for request in client:
                await line.send(request)
        except anyio.BrokenResourceError:
            pass  # a reset ends the visit like a close
        tasks.cancel_scope.cancel()
