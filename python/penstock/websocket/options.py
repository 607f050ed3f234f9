"""The options that clients, servers and connections have in common, and their checks."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from penstock.websocket.typing import LoggerLike

__all__ = ["ConnectionOptions", "checked_subprotocols", "checked_token"]

_log = logging.getLogger("penstock.websocket")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

MaxSize = int | tuple[int | None, int | None] | None
MaxQueue = int | tuple[int | None, int | None] | None
WriteLimit = int | tuple[int, int | None] | None


def checked_token(name: str) -> str:
    """Return the name of a subprotocol, which is a token (RFC 6455, 4.1)."""
    if not isinstance(name, str):
        raise TypeError(f"a subprotocol's name must be a str, not {type(name).__name__}")
    if not _TOKEN.fullmatch(name):
        raise ValueError(
            f"{name!r} is not the name of a subprotocol; use letters, digits, '-' and '.'"
        )
    return name


def checked_subprotocols(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return a list of subprotocols."""
    if isinstance(names, str):
        raise TypeError(f"subprotocols must be a list of names, not {names!r}; use [{names!r}]")
    return tuple(checked_token(name) for name in names or ())


def checked_compression(compression: object, extensions: object) -> bool:
    """Return whether permessage-deflate is wanted."""
    if compression not in ("deflate", None):
        raise ValueError(f"compression must be 'deflate' or None, not {compression!r}")
    if extensions:
        raise ValueError(
            f"extensions other than permessage-deflate are not supported: {extensions!r};"
            " omit the argument"
        )
    return compression is not None


def checked_seconds(name: str, value: object, *, zero: bool = False) -> float | None:
    """Return a time, or None for no limit."""
    if value is None:
        return None
    if isinstance(value, int | float) and (value > 0 or (zero and value == 0)):
        return float(value)
    raise ValueError(
        f"{name} must be a number of seconds {'of at least' if zero else 'above'} 0, or None,"
        f" not {value!r}"
    )


def _is_limit(value: object, least: int) -> bool:
    return isinstance(value, int) and value >= least


def _checked_queue(limit: Any) -> tuple[int, int]:
    """Return the numbers of messages at which reading pauses and goes on; 0 means no limit."""
    high, low = limit if isinstance(limit, tuple) and len(limit) == 2 else (limit, None)
    if high is None and low is not None and _is_limit(low, 0):
        high = max(4 * low, 1)
    if high is None and low is None:
        return 0, 0
    if not _is_limit(high, 1) or (low is not None and not (_is_limit(low, 0) and low <= high)):
        raise ValueError(
            "max_queue must be a number of at least 1, or None, or a pair of two with the larger"
            f" one first, not {limit!r}"
        )
    return high, high // 4 if low is None else low


def _checked_size(limit: Any) -> int:
    """Return the largest message; 0 means no limit."""
    message, fragment = limit if isinstance(limit, tuple) and len(limit) == 2 else (limit, None)
    if any(each is not None and not _is_limit(each, 1) for each in (message, fragment)):
        raise ValueError(
            f"max_size must be a number of at least 1, or None, or a pair of two, not {limit!r}"
        )
    # A fragment takes memory only as a part of its message: a second limit has nothing to protect.
    return message or 0


def _checked_write_limit(limit: Any) -> tuple[int, int | None] | None:
    if limit is None:
        return None
    high, low = limit if isinstance(limit, tuple) and len(limit) == 2 else (limit, None)
    if not _is_limit(high, 0) or (low is not None and not (_is_limit(low, 0) and low <= high)):
        raise ValueError(
            "write_limit must be a number of bytes, or None, or a pair of two with the larger one"
            f" first, not {limit!r}"
        )
    return high, low


@dataclass(frozen=True)
class ConnectionOptions:
    """The options of a connection. `connect` documents each of them."""

    ping_interval: float | None = 20
    ping_timeout: float | None = 20
    close_timeout: float | None = 10
    max_size: MaxSize = 1 << 20
    max_queue: MaxQueue = 16
    write_limit: WriteLimit = None
    logger: LoggerLike = _log

    def __post_init__(self) -> None:
        checked_seconds("ping_interval", self.ping_interval)
        checked_seconds("ping_timeout", self.ping_timeout)
        checked_seconds("close_timeout", self.close_timeout, zero=True)
        _checked_queue(self.max_queue)
        _checked_size(self.max_size)
        _checked_write_limit(self.write_limit)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a connection's constructor, or of `create_connection`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def largest_message(self) -> int:
        """Bytes; 0 means no limit."""
        return _checked_size(self.max_size)

    @property
    def queue(self) -> tuple[int, int]:
        """Messages at which reading pauses, and those at which it goes on; 0 means no limit."""
        return _checked_queue(self.max_queue)

    @property
    def write_buffer(self) -> tuple[int, int | None] | None:
        """Bytes at which `send` waits, and at which it goes on; None keeps the loop's limits."""
        return _checked_write_limit(self.write_limit)


def logger_or_own(logger: LoggerLike | str | None) -> LoggerLike:
    """Return the given logger, that of the given name, or the package's."""
    if logger is None:
        return _log
    return logging.getLogger(logger) if isinstance(logger, str) else logger
