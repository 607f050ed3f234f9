"""A simulated bus behind an RFC 2217 server, as a serial device server with settings offers it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskStatus

from penstock._plain_task_group import plain_task_group
from penstock.serial import SerialError
from penstock.serial.rfc2217 import serve_serial_port
from penstock.sim._line.bus import Bus
from penstock.sim._line.pty import open_pty
from penstock.sim._line.shared_line import BusTap

__all__ = ["open_rfc2217"]

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
