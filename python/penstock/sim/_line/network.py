"""A simulated bus behind a TCP port, as serial device servers offer it: raw, or with RFC 2217."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus

from penstock._plain_task_group import plain_task_group, running
from penstock.serial import SerialError
from penstock.serial.rfc2217 import serve_serial_port
from penstock.sim._line.bus import Bus, BusTap, SharedLine
from penstock.sim._line.memory import MemoryStream
from penstock.sim._line.pty import open_pty

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


#: Seconds between two looks for a terminal that is unplugged.
_REPLUG_INTERVAL: Final = 0.05


@asynccontextmanager
async def open_rfc2217(
    bus: Bus | BusTap,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    match_baudrate: bool = False,
) -> AsyncIterator[int]:
    """Serve the bus on ``host``; yields the port number, which the system picks for 0.

    The server is that of :mod:`penstock.serial.rfc2217`, in front of a pseudo-terminal. With
    ``match_baudrate`` the units receive a client's bytes only while it has set the bus's baud rate.
    No client can connect while the bus is unplugged by its faults.

    Raises:
        OSError: the address cannot be bound, or the system has no pseudo-terminal left.
    """
    async with (
        open_pty(bus, match_baudrate=match_baudrate) as path,
        plain_task_group() as tasks,
    ):
        number = await tasks.start(_serve, path, host, port)
        try:
            yield int(number)
        finally:
            tasks.cancel_scope.cancel()


class _Started(TaskStatus[int]):
    """Passes the first report on, and keeps the number for the rounds after it."""

    def __init__(self, outer: TaskStatus[int]) -> None:
        self._outer = outer
        self.number: int | None = None

    def started(self, value: int | None = None) -> None:
        if self.number is None and value is not None:
            self.number = value
            self._outer.started(value)


async def _serve(path: str, host: str, port: int, *, task_status: TaskStatus[int]) -> None:
    status = _Started(task_status)
    while True:
        try:
            await serve_serial_port(path, host=host, port=status.number or port, task_status=status)
        except SerialError:
            if status.number is None:
                raise
            # The faults have unplugged the terminal; its link comes back.
            await anyio.sleep(_REPLUG_INTERVAL)
