"""Upcalls of the native core: socket objects, streams' errors, futures, and its reports.

An upcall is a call from the layer below: ``penstock._core`` calls these functions by name, so
rarely that Python is fast enough.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from asyncio import constants, trsock
from typing import Any, NoReturn

from penstock.loop._reports import capture_traceback as capture_traceback
from penstock.loop._reports import describe_handle as describe_handle
from penstock.loop._reports import log_handshake as log_handshake
from penstock.loop._reports import log_received_eof as log_received_eof
from penstock.loop._reports import report_failed_callback as report_failed_callback
from penstock.loop._reports import report_failure as report_failure
from penstock.loop._reports import report_slow_callback as report_slow_callback
from penstock.loop._reports import report_slow_events as report_slow_events
from penstock.loop._reports import warn_of_lost_tls_write as warn_of_lost_tls_write
from penstock.loop._reports import warn_of_lost_write as warn_of_lost_write
from penstock.loop._reports import warn_of_tls_kept_open as warn_of_tls_kept_open


def wait_until_called(handle: Any) -> None:
    """Wait, in another thread, while the handle's callback runs (since Python 3.14)."""
    called = threading.Event()
    if handle._notify_end_of_call(called):
        called.wait()


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
