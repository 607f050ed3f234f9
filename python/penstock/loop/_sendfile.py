"""Sending files by sendfile(2), which copies them from the page cache to the socket of a transport.

asyncio's own code watches the descriptor with ``add_writer``. Here, the transport has it watched
already, and calls what sends the file while the socket takes data.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock._core import LoopCore, SocketTransport

_CLOSED = "the connection was closed during sendfile()"


async def send_file(
    loop: LoopCore, transport: SocketTransport, file: Any, offset: int, count: int | None
) -> int:
    """Send ``count`` bytes of a file (None: all) from ``offset`` on; return how many were sent.

    The file's position then follows them, even after an error or a cancellation. Nothing
    may be written to the transport meanwhile.

    Raises:
        asyncio.SendfileNotAvailableError: if this is not a regular file, or the first call fails.
        OSError: if a later call fails.
        ConnectionError: if the connection is lost, or this side closes it.
    """
    if transport._sock_fd < 0:
        raise ConnectionError(_CLOSED)
    sender = _FileSender(loop, transport, file, offset, count)
    try:
        sender()
        if not sender.done.done():
            transport._set_file_sender(sender)
        return await sender.done
    finally:
        sender.close()
        # Its future has the exception, whose traceback has this frame.
        del sender


class _FileSender:
    """Sends what the socket takes each time it is called, and is told of the connection's end."""

    __slots__ = ("_count", "_file", "_offset", "_sent", "_size", "_socket", "_transport", "done")

    def __init__(
        self,
        loop: LoopCore,
        transport: SocketTransport,
        file: Any,
        offset: int,
        count: int | None,
    ) -> None:
        try:
            self._file: int = file.fileno()
            self._size = os.fstat(self._file).st_size
        except (AttributeError, io.UnsupportedOperation, OSError) as exc:
            raise asyncio.SendfileNotAvailableError("not a regular file") from exc
        self._transport = transport
        self._socket = transport._sock_fd
        self._offset = offset
        self._count = count
        self._sent = 0
        self.done: asyncio.Future[int] = loop.create_future()

    def __call__(self) -> None:
        """Send what the socket takes now."""
        if self.done.done():  # cancelled, and its task has not run since
            self._transport._set_file_sender(None)
            return
        left = self._size if self._count is None else self._count - self._sent
        try:
            sent = os.sendfile(self._socket, self._file, self._offset, left) if left else 0
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._end(self._error_for(exc))
            return
        self._offset += sent
        self._sent += sent
        if not sent or self._sent == self._count:
            self._end(None)

    def lose(self) -> None:
        """End: the connection is lost."""
        if not self.done.done():
            self._end(ConnectionError(_CLOSED))

    def close(self) -> None:
        """Send no more, and set the file's position after what was sent."""
        self._transport._set_file_sender(None)
        if self.done.done() and not self.done.cancelled():
            self.done.exception()  # else asyncio logs that nobody has seen it
        # Also if nothing was sent, as asyncio does from CPython 3.14 on. A pipe has no position.
        with contextlib.suppress(OSError):
            os.lseek(self._file, self._offset, os.SEEK_SET)

    def _end(self, error: Exception | None) -> None:
        self._transport._set_file_sender(None)
        if error is None:
            self.done.set_result(self._sent)
        else:
            self.done.set_exception(error)

    def _error_for(self, exc: OSError) -> Exception:
        error: Exception = exc
        if not self._sent:
            # Most likely the file has no pages to map, and can only be read and written.
            error = asyncio.SendfileNotAvailableError("os.sendfile call failed")
        elif exc.errno == errno.ENOTCONN:
            error = ConnectionError("socket is not connected", errno.ENOTCONN)
        if error is not exc:
            error.__cause__ = exc
        return error
