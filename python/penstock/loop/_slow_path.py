"""The slow paths of the native core: reports, reprs, socket objects.

``penstock._core`` calls these functions by name, so rarely that Python is fast enough.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import traceback
from asyncio import constants, format_helpers, trsock
from asyncio.log import logger
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from penstock._core import Handle, SocketTransport, SSLTransport
    from penstock.loop._event_loop import Loop


def capture_traceback() -> traceback.StackSummary:
    """Return the stack that creates a handle, for debug mode."""
    return format_helpers.extract_stack(sys._getframe(1))


def describe_handle(handle: Handle) -> str:
    """Return ``repr(handle)`` in asyncio's form: the callback, and where it is defined."""
    info = [type(handle).__name__]
    if handle._cancelled:
        info.append("cancelled")
    when = getattr(handle, "_when", None)
    if when is not None:
        info.append(f"when={when}")
    if handle._callback is not None:
        info.append(_describe_callback(handle))
    if handle._source_traceback:
        frame = handle._source_traceback[-1]
        info.append(f"created at {frame[0]}:{frame[1]}")
    return f"<{' '.join(info)}>"


def wait_until_called(handle: Any) -> None:
    """Wait, in another thread, while the handle's callback runs (since Python 3.14)."""
    called = threading.Event()
    if handle._notify_end_of_call(called):
        called.wait()


def report_failed_callback(loop: Loop, handle: Handle, exception: BaseException) -> None:
    """Report the exception of a scheduled callback to the loop's exception handler."""
    context: dict[str, Any] = {
        "message": f"Exception in callback {_describe_callback(handle)}",
        "exception": exception,
        "handle": handle,
    }
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    loop.call_exception_handler(context)


def report_failure(
    loop: Loop,
    message: str,
    exception: BaseException,
    transport: SocketTransport | None,
    protocol: asyncio.BaseProtocol | None,
) -> None:
    """Report a failure outside of a scheduled callback to the loop's exception handler."""
    context: dict[str, Any] = {"message": message, "exception": exception}
    if transport is not None:
        context["transport"] = transport
    if protocol is not None:
        context["protocol"] = protocol
    loop.call_exception_handler(context)


def report_slow_callback(loop: Loop, handle: Handle, seconds: float) -> None:
    """Warn of a callback that blocked the loop for too long; in debug mode."""
    if seconds >= loop.slow_callback_duration:
        task = getattr(handle._callback, "__self__", None)
        what = task if isinstance(task, asyncio.Task) else handle
        # repr now: a handle drops its callback once it has run.
        logger.warning("Executing %s took %.3f seconds", repr(what), seconds)


def report_slow_events(loop: Loop, subject: object, seconds: float) -> None:
    """Warn of slow callbacks of a transport or a listener; in debug mode."""
    if seconds >= loop.slow_callback_duration:
        logger.warning("Executing callbacks of %r took %.3f seconds", subject, seconds)


def warn_of_lost_write() -> None:
    """Warn of repeated writes to a lost connection."""
    logger.warning("socket.send() raised exception.")


def warn_of_lost_tls_write() -> None:
    """Warn of repeated writes to a closed TLS connection."""
    logger.warning("SSL connection is closed")


def warn_of_tls_kept_open() -> None:
    """Warn of a protocol that keeps its side open after the peer has ended the TLS connection."""
    logger.warning("returning true from eof_received() has no effect when using ssl")


def log_handshake(transport: SSLTransport, seconds: float | None) -> None:
    """Log that a TLS handshake begins (None) or how long it took; in debug mode."""
    if seconds is None:
        logger.debug("%r starts SSL handshake", transport)
    else:
        logger.debug("%r: SSL handshake took %.1f ms", transport, seconds * 1e3)


def log_received_eof(transport: SSLTransport, _: None) -> None:
    """Log that the peer has ended its side of the socket; in debug mode."""
    logger.debug("%r received EOF", transport)


def socket_for(fd: int, family: int) -> socket.socket:
    """Return a socket object that owns an accepted connection's descriptor."""
    return socket.socket(family, socket.SOCK_STREAM, fileno=fd)


def transport_socket(sock: socket.socket | None, family: int) -> trsock.TransportSocket | None:
    """Return what ``get_extra_info("socket")`` returns: a closed socket after the connection."""
    if sock is None:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # out of descriptors
            return None
        sock.close()
    return trsock.TransportSocket(sock)


def describe_socket(sock: socket.socket, extra: dict[str, Any] | None) -> dict[str, Any]:
    """Return the values of a datagram transport's ``get_extra_info``; asyncio reads all at once."""
    described = dict(extra or {})
    described["socket"] = trsock.TransportSocket(sock)
    try:
        described["sockname"] = sock.getsockname()
    except OSError:
        described["sockname"] = None
    if "peername" not in described:
        try:
            described["peername"] = sock.getpeername()
        except OSError:
            described["peername"] = None
    return described


def sendfile_mode() -> Any:
    """Return how ``loop.sendfile`` may use a socket transport."""
    return constants._SendfileMode.TRY_NATIVE


def tls_sendfile_mode() -> Any:
    """Return how ``loop.sendfile`` may use a TLS transport."""
    return constants._SendfileMode.FALLBACK


def fail_empty_waiter(waiter: asyncio.Future[None]) -> None:
    """End a sendfile that waits for a lost connection."""
    if not waiter.done():
        waiter.set_exception(ConnectionError("Connection is closed by peer"))


def _describe_callback(handle: Handle) -> str:
    callback: str = format_helpers._format_callback_source(handle._callback, handle._args)
    return callback


def current_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a stream that was given none."""
    return asyncio.get_running_loop()


def separators(separator: bytes | tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the separators of readuntil(), shortest first."""
    several = tuple(separator) if isinstance(separator, tuple) else (separator,)
    if not several:
        raise ValueError("Separator should contain at least one element")
    ordered = tuple(sorted((memoryview(each).tobytes() for each in several), key=len))
    if not ordered[0]:
        raise ValueError("Separator should be at least one-byte string")
    return ordered


def raise_incomplete_read(partial: bytes, expected: int | None) -> NoReturn:
    """Raise the error of a stream that ended before the requested data arrived."""
    raise asyncio.IncompleteReadError(partial, expected)


def raise_limit_overrun(found: bool, consumed: int) -> NoReturn:
    """Raise the error of a readuntil() that would return more than the stream's limit."""
    raise asyncio.LimitOverrunError(_overrun_message(found), consumed)


def raise_line_too_long(found: bool, consumed: int) -> NoReturn:
    """Raise the error of a readline() that would return more than the stream's limit."""
    raise ValueError(_overrun_message(found))


class _NoLoop:
    """The loop of a future that needs none."""

    def get_debug(self) -> bool:
        return False


def finished_future() -> asyncio.Future[None]:
    """Return a finished future, with None as its result."""
    future: asyncio.Future[None] = asyncio.Future(loop=_NoLoop())  # type: ignore[arg-type]
    future.set_result(None)
    return future


def call_soon_on_loop(loop: Any, callback: Any, operation: Any, context: Any) -> None:
    """Resume a waiting task in the next iteration, as a future would."""
    loop.call_soon(callback, operation, context=context)


def _overrun_message(found: bool) -> str:
    if found:
        return "Separator is found, but chunk is longer than limit"
    return "Separator is not found, and chunk exceed the limit"
