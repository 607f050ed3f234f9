"""TCP connections that are read only when somebody asks for bytes, and the accepting of them.

AnyIO's streams on asyncio's loops read ahead into memory. They pause that only around a wait, and
so never, while a peer sends faster than it is read: 100 MB from one client were 100 MB here. These
leave the bytes in the kernel, whose buffers are bounded and hold the peer back.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketListener, TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.stapled import MultiListener

__all__ = ["Connection", "close_after_last_words", "has_left", "serve_connections"]

_LOOK_AGAIN_S = 1.0
_LAST_WORDS_S = 1.0


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
        """Return the bytes that are there, at most *max_bytes*; wait for the first one.

        Raises :class:`anyio.EndOfStream` once the peer has said that no more will come,
        :class:`anyio.BrokenResourceError` where the connection broke, and
        :class:`anyio.ClosedResourceError` once it was closed here.
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
        """Hand all of *item* to the kernel; raises as :meth:`receive`."""
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
        """Tell the peer that no more will come."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as exc:
            raise self._error() from exc

    async def aclose(self) -> None:
        """Close; who waits gets :class:`anyio.ClosedResourceError`."""
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
    """As ``listener.serve(handler, tasks)``, with :class:`Connection` objects where that can be.

    That is for AnyIO's listening sockets. Any other listener, such as one that adds TLS, makes its
    streams itself.
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
    # A descriptor of its own: whoever closes the listener meanwhile tells AnyIO, and not this.
    with listening.dup() as own:
        own.setblocking(False)
        try:
            while listening.fileno() >= 0:
                with anyio.move_on_after(_LOOK_AGAIN_S):
                    await anyio.wait_readable(own)
                try:
                    peer, _ = own.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                tasks.start_soon(handler, Connection(peer))
        finally:
            anyio.notify_closing(own)
    raise anyio.ClosedResourceError


def has_left(stream: ByteStream) -> bool:
    """Whether the peer has said that no more will come, also where much is still unread.

    False for a stream that is no socket: only reading it to its end tells.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is None or raw.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


async def close_after_last_words(stream: ByteStream, words: bytes) -> None:
    """Send *words*, and close so that they arrive; takes a second at most.

    A socket that is closed with bytes unread resets the connection, and the peer's kernel then
    throws away what it has not read yet (RFC 1122, 4.2.2.13). So this reads to the peer's end.
    """
    with anyio.move_on_after(_LAST_WORDS_S):
        try:
            await stream.send(words)
            await stream.send_eof()
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
    await stream.aclose()
