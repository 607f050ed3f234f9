"""Serving a port to the network (RFC 2217): one client at a time, any number one after another.

RFC 2217 has no password and no encryption: everyone who reaches the TCP port drives the device.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskStatus

from penstock.serial._devices.tcp import set_up_for_serial
from penstock.serial._port.port import SerialPort, open_serial_port
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import SerialDisconnectedError
from penstock.serial.rfc2217._connections import (
    close_after_message,
    has_left,
    serve_connections,
)
from penstock.serial.rfc2217._server_session import ServerSession

DEFAULT_PORT = 2217

# A client that reconnects may find its own last connection being closed. The sum of these is less
# than what clients wait for the first bytes (pyserial: 3 s).
_SHORT_WAIT_S = 0.5
_LONGEST_WAIT_S = 2.0
_IN_USE = b"The serial port is in use by another client.\r\n"
_CLOSING = b"The serial port is in use: its last client's output is being sent. Try again.\r\n"


class Rfc2217Server:
    """Serves one open port. Belongs to the event loop on which it runs.

    Between two clients the port keeps its first settings, and what it receives is discarded.
    """

    def __init__(self, port: SerialPort) -> None:
        """Serve ``port``. The caller keeps it, and closes it after the serving has ended."""
        self._port = port
        self._client: ByteStream | None = None
        self._freed = anyio.Event()  # replaced each time
        self._receiving = anyio.Lock()  # the client's, or that of the wait for one
        self._idle: anyio.CancelScope | None = None

    @property
    def is_serving(self) -> bool:
        """Whether a client is connected."""
        return self._client is not None

    async def serve(self, listener: Listener[Any]) -> None:
        """Accept clients until cancelled.

        Raises:
            SerialDisconnectedError: The device was unplugged.
        """
        gone: SerialDisconnectedError | None = None
        async with anyio.create_task_group() as tasks:

            async def end_if_unplugged(work: Callable[[], Awaitable[None]]) -> None:
                nonlocal gone
                try:
                    await work()
                except SerialDisconnectedError as exc:
                    gone = exc
                    tasks.cancel_scope.cancel()

            tasks.start_soon(end_if_unplugged, self._discard_while_idle)
            await serve_connections(
                listener, lambda stream: end_if_unplugged(partial(self.serve_client, stream)), tasks
            )
        if gone is not None:
            raise gone

    async def serve_client(self, stream: ByteStream) -> None:
        """Serve one connection to its end and close it.

        One at a time. A second one waits half a second for the first to end, or two seconds if the
        first has left and its last bytes are being sent to the device. Then it gets a message that
        the port is in use, and is closed.
        """
        async with stream:
            await self._until_free()
            if self._client is not None:
                message = _CLOSING if has_left(self._client) else _IN_USE
                await close_after_message(stream, message)
                return
            self._client = stream
            try:
                _prepare(stream)
                if self._idle is not None:
                    self._idle.cancel()
                async with self._receiving:
                    await ServerSession(self._port, stream).run()
            finally:
                self._client = None
                self._freed.set()
                self._freed = anyio.Event()

    async def _until_free(self) -> None:
        with anyio.move_on_after(_SHORT_WAIT_S):
            await self._until_no_client()
        if self._client is not None and has_left(self._client):
            with anyio.move_on_after(_LONGEST_WAIT_S):
                await self._until_no_client()

    async def _until_no_client(self) -> None:
        # If several wait, the first to run takes the port; the others continue to wait.
        while self._client is not None:
            await self._freed.wait()

    async def _discard_while_idle(self) -> None:
        # Reading also detects that the device was unplugged while nobody is connected.
        while True:
            async with self._receiving:
                with anyio.CancelScope() as self._idle:
                    while self._client is None:
                        await self._port.receive()


async def serve_serial_port(
    path: str,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    config: SerialConfig | None = None,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Open the port at ``path`` and serve it on ``host`` and TCP ``port`` until cancelled.

    ``task_group.start`` returns the TCP port's number once clients can connect, even for a
    ``port`` of 0, which takes a free one.

    Raises:
        SerialError: As :func:`~penstock.serial.open_serial_port`.
        SerialDisconnectedError: The device was unplugged.
        OSError: The TCP port is not available.
    """
    async with (
        await open_serial_port(path, config) as serial_port,
        await anyio.create_tcp_listener(local_host=host, local_port=port) as listener,
    ):
        task_status.started(listener.extra(SocketAttribute.local_port))
        await Rfc2217Server(serial_port).serve(listener)


def _prepare(stream: ByteStream) -> None:
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        # A client that has vanished must not keep the port forever.
        set_up_for_serial(raw)
