"""TCP connections that read only on demand, and how they are accepted.

AnyIO's streams on asyncio's loops read ahead into memory. They pause that only around a wait, and
so never while a peer sends faster than it is read: 100 MB from one client took 100 MB here. These
connections leave the bytes in the kernel, whose bounded buffers stop the peer.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketListener, TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.stapled import MultiListener

_log = logging.getLogger("penstock.serial.rfc2217")

_POLL_INTERVAL_S = 1.0
_ACCEPT_PAUSE_S = 1.0  # as asyncio's and Penstock's loop
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# accept(2): a connection that has failed meanwhile is reported as accept's own error.
_LOST_BEFORE_ACCEPTED = frozenset(
    {
        *(errno.EAGAIN, errno.ECONNABORTED, errno.ENETDOWN, errno.EPROTO, errno.ENOPROTOOPT),
        *(errno.EHOSTDOWN, errno.ENONET, errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH),
        errno.EPERM,
    }
)
_CLOSE_S = 1.0


class Connection(ByteStream):
    """A connected stream socket. Belongs to one event loop; one receiver and one sender at a time.

    Cancelling a receive loses nothing; of a cancelled send an unknown part has been written.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._closed = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.raw_socket: lambda: self._socket}

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """Return the bytes that have arrived, at most ``max_bytes``; wait for the first one.

        Raises:
            anyio.EndOfStream: The peer has shut down its side.
            anyio.BrokenResourceError: The connection broke.
            anyio.ClosedResourceError: The connection was closed on this side.
        """
        await checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            except OSError as exc:
                raise self._error() from exc
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        """Hand all of ``item`` to the kernel; raises as :meth:`receive`."""
        await checkpoint_if_cancelled()
        unsent = memoryview(item)
        while unsent:
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError as exc:
                raise self._error() from exc

    async def send_eof(self) -> None:
        """Shut down the sending side."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as exc:
            raise self._error() from exc

    async def aclose(self) -> None:
        """Close; waiting tasks get :class:`anyio.ClosedResourceError`."""
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()
        await checkpoint()

    def _error(self) -> Exception:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


async def serve_connections(
    listener: Listener[Any],
    handler: Callable[[ByteStream], Coroutine[Any, Any, None]],
    tasks: TaskGroup,
) -> None:
    """Do what ``listener.serve(handler, tasks)`` does, with :class:`Connection` objects.

    Only for AnyIO's listening sockets. Any other listener, such as one that adds TLS, makes its own
    streams.
    """
    parts = listener.listeners if isinstance(listener, MultiListener) else [listener]
    if not all(isinstance(part, SocketListener) for part in parts):
        await listener.serve(handler, tasks)
        return
    async with anyio.create_task_group() as acceptors:
        for part in parts:
            acceptors.start_soon(_accept, part.extra(SocketAttribute.raw_socket), handler, tasks)


async def _accept(
    listening: socket.socket,
    handler: Callable[[ByteStream], Coroutine[Any, Any, None]],
    tasks: TaskGroup,
) -> None:
    # A descriptor of its own: closing the listener notifies AnyIO, but not this task.
    with listening.dup() as own:
        own.setblocking(False)
        try:
            while listening.fileno() >= 0:
                with anyio.move_on_after(_POLL_INTERVAL_S):
                    await anyio.wait_readable(own)
                try:
                    peer, _ = own.accept()
                except OSError as exc:
                    if exc.errno in _EXHAUSTED:
                        _log.warning(
                            "no connection can be accepted (%s); trying again in %g s",
                            exc.strerror,
                            _ACCEPT_PAUSE_S,
                        )
                        await anyio.sleep(_ACCEPT_PAUSE_S)
                    elif exc.errno not in _LOST_BEFORE_ACCEPTED:
                        raise
                    continue
                tasks.start_soon(handler, Connection(peer))
        finally:
            anyio.notify_closing(own)
    raise anyio.ClosedResourceError


def has_left(stream: ByteStream) -> bool:
    """Return whether the peer has shut down its side, even if bytes are still unread.

    False for a stream that is not a socket: there only reading to the end shows it.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is None or raw.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


async def close_after_message(stream: ByteStream, message: bytes) -> None:
    """Send ``message``, and close so that it arrives; takes at most a second.

    Closing a socket with unread bytes resets the connection, and the peer's kernel then discards
    what the peer has not read yet (RFC 1122, 4.2.2.13). So this reads until the peer has closed.
    """
    with anyio.move_on_after(_CLOSE_S):
        try:
            await stream.send(message)
            await stream.send_eof()
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
    await stream.aclose()
