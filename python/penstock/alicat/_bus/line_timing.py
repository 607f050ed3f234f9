"""The times of a line: its silence, and what its bytes take.

A byte takes ten bits of the line. At 2400 baud a row of 70 characters takes 0.3 s and the table of
a data frame 5 s. So no time that is meant for the instrument may contain them: what the bytes take
is added to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.alicat.errors import AlicatConfigurationError

__all__ = ["LineTiming", "check_seconds", "idle_gap_for", "timing_for"]

#: Characters of a long answer line, and rows of a long table (a gas list has about 150).
_LINE = 80
_ROWS = 256
#: Characters of a whole long table, on average of its rows.
_TABLE = 2200
_RESTLESS_S = 1.0
_BITS_A_BYTE = 10
#: Slowest rate of an instrument, and a usual slow one: for lines whose rate is not known here.
_SLOWEST_BAUD = 2400
_SLOW_BAUD = 9600
#: Serial servers collect bytes for up to 50 ms, and a network delays them differently.
_TCP_GAP_S = 0.1


@dataclass(frozen=True, slots=True)
class LineTiming:
    """The times of one connection, in seconds."""

    idle: float
    """Silence, counted from the last byte, after which an answer in progress counts as ended."""
    byte: float
    """One byte on the line; 0 where the rate is unknown."""
    table: float
    """The longest table. Rows that still come after it belong to no table."""
    restless: float
    """A line that is not silent for so long is not just sending the rest of a table."""

    def answer(self, command: bytes) -> float:
        """What the bytes of a command and of an answer line take, besides the instrument's time."""
        return (len(command) + _LINE) * self.byte


def timing_for(
    baudrate: int | None, *, over_tcp: bool = False, idle: float | None = None
) -> LineTiming:
    """The times of a line.

    Args:
        baudrate: Bits a second; ``None`` if unknown.
        over_tcp: It is a raw TCP connection to a serial server, whose rate is not known here.
        idle: The silence, if it is stated.
    """
    if over_tcp:
        baudrate = None
    byte = _BITS_A_BYTE / baudrate if baudrate else 0.0
    slow = byte or (_BITS_A_BYTE / _SLOW_BAUD if over_tcp else 0.0)
    return LineTiming(
        idle=idle or (_TCP_GAP_S if over_tcp else idle_gap_for(baudrate)),
        byte=byte,
        table=_ROWS * _LINE * (byte or _BITS_A_BYTE / _SLOWEST_BAUD),
        restless=_RESTLESS_S + _TABLE * slow,
    )


def idle_gap_for(baudrate: int | None) -> float:
    """Seconds of silence after the last byte, after which a reply in progress counts as ended.

    Twenty character times, because bytes of one reply follow each other without a pause, and
    25 ms, because USB adapters hand bytes over in bursts up to 16 ms apart (the FTDI latency
    timer's default) and a loaded machine adds a few more.
    """
    return 0.025 + (200.0 / baudrate if baudrate else 0.0)


def check_seconds(value: object, name: str = "timeout") -> None:
    """Refuse a time that no wait can have.

    Raises:
        AlicatConfigurationError: it is not a finite number above 0.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator]
        raise AlicatConfigurationError(f"{name} must be a number of seconds above 0, not {value!r}")
