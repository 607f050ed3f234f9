"""When a client connects again."""

from __future__ import annotations

import random
from collections.abc import Iterator

from penstock.websocket.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidProxyMessage,
    InvalidProxyStatus,
    InvalidStatus,
)

__all__ = ["backoff", "process_exception"]

_TEMPORARY = {500, 502, 503, 504}


def backoff(first: float = 0.1, factor: float = 2.0, largest: float = 60.0) -> Iterator[float]:
    """Generate the delays before attempts to connect.

    Each is between a half and the whole of `first`, then of a time that grows by `factor` up to
    `largest`. So the clients of a server that was restarted do not come back all at once (RFC
    6455, 7.2.3).

    Args:
        first: Seconds.
        factor: What they are multiplied with each time.
        largest: Seconds.
    """
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * factor, largest)


def process_exception(error: Exception) -> Exception | None:
    """Return None if another attempt to connect may succeed, else the exception.

    It may after an OSError, a time-out, the status 500, 502, 503 or 504, even of a proxy that does
    not reach the server, and if the server or the proxy has ended the connection during the
    handshake.
    """
    if isinstance(error, InvalidStatus | InvalidProxyStatus):
        return None if error.response.status_code in _TEMPORARY else error
    if isinstance(error, InvalidMessage | InvalidProxyMessage) and (
        error.__cause__ is None or isinstance(error.__cause__, OSError)
    ):
        return None  # the other end has ended the connection
    if isinstance(error, OSError | TimeoutError) and not isinstance(error, InvalidHandshake):
        return None
    return error
