"""What a service manager is told: ready, alive, stopping (sd_notify(3), ``Type=notify``).

A few datagrams to the socket that ``NOTIFY_SOCKET`` names, without a library: the protocol is
stable (systemd's interface portability promise). Without that variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

_STATUS_EVERY_S = 10.0


class ServiceManager:
    """The service manager that has started this process, if one did.

    Sending never waits and never fails: a run must not end because its supervisor is away.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address: str | bytes | None = None
        name = environ.get("NOTIFY_SOCKET", "")
        if name.startswith("/"):
            self._address = name
        elif name.startswith("@"):
            self._address = b"\0" + os.fsencode(name[1:])  # the abstract name space, unix(7)
        self.watchdog_s = _watchdog_seconds(environ) if self._address is not None else None
        """Seconds after which it ends a process that gives no sign of life; None: never."""

    def tell(self, *states: str) -> None:
        """Send states such as ``READY=1``."""
        if self._address is None:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto("\n".join(states).encode(), self._address)

    @asynccontextmanager
    async def kept_informed(self, status: Callable[[], str]) -> AsyncGenerator[None, None]:
        """Give signs of life from the running event loop inside the block.

        Twice in the time that the watchdog allows, as sd_watchdog_enabled(3) recommends. A loop
        that hangs gives none, and the service manager then starts the process again. ``status`` is
        the line that ``systemctl status`` shows.
        """
        if self._address is None:
            yield
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat, status)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _beat(self, status: Callable[[], str]) -> None:
        pause = _STATUS_EVERY_S
        signs: tuple[str, ...] = ()
        if self.watchdog_s is not None:
            pause, signs = min(pause, self.watchdog_s / 2), ("WATCHDOG=1",)
        while True:
            self.tell(*signs, f"STATUS={' '.join(status().split())}")
            await anyio.sleep(pause)


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Only for this process: a child inherits the variables, and not the duty."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return microseconds / 1e6 if microseconds > 0 else None
