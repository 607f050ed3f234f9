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
    """Generate the delays, in seconds, before attempts to connect.

    A delay is random, between half of an upper bound and the bound. The bound is `first`, and grows
    by `factor` with each attempt up to `largest`. Thus the clients of a server that was restarted
    do not all connect at once (RFC 6455, 7.2.3).

    Args:
        first: The bound of the first delay, in seconds.
        factor: The factor by which the bound grows.
        largest: The largest bound, in seconds.
    """
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * factor, largest)


def process_exception(error: Exception) -> Exception | None:
    """Return None if another attempt to connect may succeed, else the exception.

    Another attempt may succeed after an OSError, a time-out, the status 500, 502, 503 or 504 of the
    server or of a proxy, and if the server or the proxy closed the connection during the handshake.
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
