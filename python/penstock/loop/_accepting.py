"""Accepting the connections of a listening socket."""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio import trsock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import _core

if TYPE_CHECKING:
    from contextvars import Context
    from ssl import SSLContext

    from penstock.loop._event_loop import Loop

_RETRY_DELAY = 1.0
"""Seconds until a listener that ran out of descriptors retries; asyncio's value."""


class Acceptor:
    """Accepts connections from ``start`` until ``stop``, which leaves the socket open.

    It and its native listener refer to each other, and to the protocol factory, the application.
    ``stop`` breaks the cycle, so that no garbage collection is needed.
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sslcontext: SSLContext | None,
        server: asyncio.AbstractServer | None,
        backlog: int,
        tls_options: dict[str, Any],
        context: Context | None,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._protocol_factory = protocol_factory
        self._sslcontext = sslcontext
        self._server = server
        self._backlog = backlog
        self._tls_options = tls_options
        self._context = context
        self._listener: _core.Listener | None = None
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept, in ``context`` if one was given."""
        if self._context is None:
            self._listen()
        else:
            self._context.run(self._listen)

    def stop(self) -> None:
        """Stop accepting. Does nothing the second time."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _listen(self) -> None:
        self._retry = None
        self._listener = _core.Listener(
            self._loop,
            self._sock,
            self._protocol_factory,
            self._server,
            self._backlog,
            self._pause,
            None if self._sslcontext is None else self._accept_tls,
        )

    def _pause(self, error: OSError) -> None:
        self._loop.call_exception_handler(
            {
                "message": "socket.accept() out of system resource",
                "exception": error,
                "socket": trsock.TransportSocket(self._sock),
            }
        )
        if self._listener is not None:  # the handler has not stopped it
            self._retry = self._loop.call_later(_RETRY_DELAY, self.start)

    def _accept_tls(self, fd: int, peername: Any) -> None:
        """Run the handshake in a task, as asyncio does, so that it can be cancelled."""
        try:
            sock = self._sock
            connection = socket.socket(sock.family, sock.type, sock.proto, fd)
        except BaseException:
            os.close(fd)
            raise
        connection.setblocking(False)  # it is already; the object does not know
        self._loop.create_task(
            self._loop._accept_connection2(
                self._protocol_factory,
                connection,
                {"peername": peername},
                self._sslcontext,
                self._server,
                **self._tls_options,
            )
        )
