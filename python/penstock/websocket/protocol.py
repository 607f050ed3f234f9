"""The state and the side of a connection."""

from __future__ import annotations

import enum

__all__ = ["Side", "State"]


class State(enum.IntEnum):
    """The state of a connection (RFC 6455, 4.1 and 7.1)."""

    CONNECTING, OPEN, CLOSING, CLOSED = range(4)


class Side(enum.IntEnum):
    """Which end of the connection this is."""

    SERVER, CLIENT = range(2)
