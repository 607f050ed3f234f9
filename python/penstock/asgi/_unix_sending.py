"""The time-out of sending on Unix sockets, which have no TCP_USER_TIMEOUT: a look once a second."""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import termios
from collections.abc import Iterable
from typing import Any

from penstock.asgi._connection import Connection, Owner


class UnixConnection(Connection):
    """A connection on a Unix socket; tells when its client has taken something."""

    __slots__ = ("_sending",)

    def __init__(self, owner: Owner, sending: UnixSending) -> None:
        super().__init__(owner)
        self._sending = sending

    def resume_writing(self) -> None:
        """Let sends continue."""
        self._sending.note_progress(self)
        super().resume_writing()

    async def _send_part(self, request: Any, file: Any, start: int, size: int) -> None:
        files = self._sending.files
        files.add(self)
        try:
            await super()._send_part(request, file, start, size)
        finally:
            files.discard(self)


class UnixSending:
    """Ends connections whose clients take nothing of what was sent for some seconds.

    The kernel counts a part as taken when the client has read all of it. Parts have at most about
    64 KiB, so a client that reads less in the given time is taken for one that has stopped.

    Args:
        seconds: The time-out.

    Attributes:
        files: The connections that send a file, whose transports then hold nothing themselves.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[UnixConnection, tuple[float, tuple[int, int]]] = {}
        self.files: set[UnixConnection] = set()

    def note_progress(self, connection: UnixConnection) -> None:
        """Begin to count again: the client has taken something, and more may be sent at once."""
        self._waiting.pop(connection, None)

    def sweep(self, connections: Iterable[object], now: float) -> None:
        """Look at all connections, and end those whose time is over."""
        waiting = {}
        for connection in connections:
            if not isinstance(connection, UnixConnection) or connection.transport is None:
                continue
            transport: Any = connection.transport
            queued = transport.get_write_buffer_size()
            if not queued and connection not in self.files:
                continue
            shown = transport.get_extra_info("socket")
            if shown is None or shown.fileno() < 0:
                continue
            # Borrowed: a duplicate needs a descriptor, of which many such clients leave none.
            same = socket.socket(fileno=shown.fileno())
            try:
                untaken = (queued, _bytes_in_kernel(same))
                since, before = self._waiting.get(connection, (now, untaken))
                if before != untaken:
                    since = now
                elif now - since > self._seconds:
                    with contextlib.suppress(OSError):
                        same.shutdown(socket.SHUT_RDWR)  # wakes a sendfile too
                    transport.abort()
                    continue
            finally:
                same.detach()
            waiting[connection] = (since, untaken)
        self._waiting = waiting


def _bytes_in_kernel(sock: socket.socket) -> int:
    """Return what the peer has not taken (SIOCOUTQ, the same number as TIOCOUTQ)."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.TIOCOUTQ, count)
    return count[0]
