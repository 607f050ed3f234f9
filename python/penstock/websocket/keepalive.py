"""Keepalive: pings at an interval, and the end of a connection whose peer is silent or stuck."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.websocket.connection import Connection

__all__ = ["Keepalive"]


class Keepalive:
    """Sends a ping every `interval` seconds, whether the previous one is answered or not.

    The connection fails with 1011 if, after a ping, nothing arrives for `timeout` seconds. Any
    input counts, not only the pong, because a pong may queue behind a large frame of the peer.
    While reading is paused nothing can arrive, so the time starts again when reading goes on.

    The connection also fails with 1011 if sends wait and the peer reads no byte for `timeout`
    seconds, even if the peer sends: a peer that pings and never reads would block sends forever.

    At most one ping is unanswered: the next one repeats its payload. So a peer that sends, but
    never answers pings, costs no memory.
    """

    def __init__(self, connection: Connection, interval: float, timeout: float | None) -> None:
        self._connection = connection
        self._interval = interval
        self._timeout = timeout
        self._next_ping = connection.loop.time() + interval
        self._silent_since: float | None = None
        self._paused = False  # at the last look
        self._stuck_since: float | None = None  # sends wait, and the peer takes nothing
        self._taken = 0
        self._ping: asyncio.Future[float] | None = None
        self._payload = b""
        self._due = self._next_ping
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def stop(self) -> None:
        """Send no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        when = self._next_ping
        if self._timeout is not None:
            for since in (self._silent_since, self._stuck_since):
                if since is not None:
                    when = min(when, since + self._timeout)
        self._due = when
        self._timer = self._connection.loop.call_at(when, self._look)

    def _look(self) -> None:
        connection = self._connection
        # A loop may call early by its clock's resolution: uvloop would then do so again and again.
        now = max(connection.loop.time(), self._due)
        # Reading that was resumed since the last call may not have read yet: the task that made
        # room in the queue and this timer can run in one iteration of the loop.
        if connection._heard or connection._reading_paused or self._paused:
            self._silent_since = None
        connection._heard = False
        self._paused = connection._reading_paused
        self._note_what_the_peer_has_taken(now)
        for since, reason in (
            (self._silent_since, "keepalive ping timeout"),
            (self._stuck_since, "the peer does not read"),
        ):
            if self._timeout is not None and since is not None and now >= since + self._timeout:
                self._timer = None
                connection._fail(1011, reason)
                return
        if now >= self._next_ping:
            self._send()
            # A loop that was held up sends one ping, not all that it has missed.
            self._next_ping = max(self._next_ping + self._interval, now)
            if self._silent_since is None:
                self._silent_since = now
        self._wait()

    def _note_what_the_peer_has_taken(self, now: float) -> None:
        connection = self._connection
        if self._timeout is None or not connection._writing_paused:
            self._stuck_since = None
            return
        taken = connection._written - _not_taken(connection.transport)
        # Only the change since the last call counts: TLS adds bytes to the queue, so `taken` can
        # become smaller.
        if self._stuck_since is None or taken > self._taken:
            self._stuck_since = now
        self._taken = taken

    def _send(self) -> None:
        if self._ping is None or self._ping.done():
            self._payload, self._ping = self._connection._new_ping(None)
        else:
            self._connection._repeat_ping(self._payload)


def _not_taken(transport: asyncio.Transport | None) -> int:
    """Return how many written bytes the peer's kernel has not acknowledged (tcp(7), SIOCOUTQ)."""
    if transport is None:
        return 0
    sock, waiting = transport.get_extra_info("socket"), 0
    if sock is not None:
        with contextlib.suppress(OSError, ValueError):  # closed, or the kernel has no such count
            (waiting,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))
    return transport.get_write_buffer_size() + waiting
