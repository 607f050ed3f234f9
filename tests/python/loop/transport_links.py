"""Connections of every kind: a stream transport at one end, a blocking socket at the other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from .certificates import client_context, server_context

every_transport = pytest.mark.parametrize("kind", ["tcp", "unix", "tls", "tls-unix"])


class Link:
    """A transport of some kind, its protocol, and the blocking socket at the other end."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.transport: Any = None
        self.protocol: Any = None
        self.peer: Any = None

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        ours, theirs = self._sockets()
        for sock, option in ((ours, socket.SO_SNDBUF), (theirs, socket.SO_RCVBUF)):
            sock.setsockopt(socket.SOL_SOCKET, option, 65536)
        ours.setblocking(False)
        theirs.settimeout(30)
        loop = asyncio.get_running_loop()
        if not self.kind.startswith("tls"):
            self.peer = theirs
            self.transport, self.protocol = await loop.create_connection(factory, sock=ours)
            return
        shake_hands = asyncio.to_thread(server_context().wrap_socket, theirs, server_side=True)
        (self.transport, self.protocol), self.peer = await asyncio.gather(
            loop.create_connection(
                factory, sock=ours, ssl=client_context(), server_hostname="localhost"
            ),
            shake_hands,
        )

    def _sockets(self) -> tuple[socket.socket, socket.socket]:
        if self.kind.endswith("unix"):
            return socket.socketpair()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
            return ours, theirs

    def reset(self) -> None:
        """Reset the connection, so that a write fails."""
        with contextlib.suppress(OSError):  # a close with unread data resets a Unix socket
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.transport is not None:
            self.transport.abort()
            await self.protocol.closed.wait()
        if self.peer is not None:
            self.peer.close()
