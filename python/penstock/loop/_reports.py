"""What the loop and its transports report and warn of, and the reprs of handles.

``penstock._core`` calls these functions by way of :mod:`penstock.loop._upcalls`.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from asyncio import format_helpers
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

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


def _describe_callback(handle: Handle) -> str:
    callback: str = format_helpers._format_callback_source(handle._callback, handle._args)
    return callback
