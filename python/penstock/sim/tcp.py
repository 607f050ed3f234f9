"""A simulated bus behind a TCP port, as a serial device server offers it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream

from penstock.sim.background import running
from penstock.sim.bus import Bus
from penstock.sim.memory import MemoryStream

__all__ = ["open_tcp"]

#: Seconds that a new client waits for the one before it to be gone: somebody who reconnects comes
#: back before his old connection has been noticed as closed.
_HAND_OVER: Final = 0.25


@asynccontextmanager
async def open_tcp(bus: Bus, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Serve the bus on `host`; yields the port number, which the system picks for 0.

    The line belongs to one client at a time; another one that connects is hung up on, as most
    device servers do. Raises OSError when the address cannot be bound.
    """
    line = anyio.Lock()

    async def serve(client: SocketStream) -> None:
        async with client:
            with anyio.move_on_after(_HAND_OVER):
                await line.acquire()
            if line.statistics().owner != anyio.get_current_task():
                return
            try:
                await _relay(MemoryStream(bus), client)
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
