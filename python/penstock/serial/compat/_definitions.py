"""pyserial's constants, exceptions and byte helpers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = [
    "CR",
    "EIGHTBITS",
    "FIVEBITS",
    "LF",
    "PARITY_EVEN",
    "PARITY_MARK",
    "PARITY_NAMES",
    "PARITY_NONE",
    "PARITY_ODD",
    "PARITY_SPACE",
    "SEVENBITS",
    "SIXBITS",
    "STOPBITS_ONE",
    "STOPBITS_ONE_POINT_FIVE",
    "STOPBITS_TWO",
    "XOFF",
    "XON",
    "PortNotOpenError",
    "SerialException",
    "SerialTimeoutException",
    "Timeout",
    "iterbytes",
    "to_bytes",
]

XON = b"\x11"
XOFF = b"\x13"
CR = b"\r"
LF = b"\n"

PARITY_NONE = "N"
PARITY_EVEN = "E"
PARITY_ODD = "O"
PARITY_MARK = "M"
PARITY_SPACE = "S"
PARITY_NAMES = {
    PARITY_NONE: "None",
    PARITY_EVEN: "Even",
    PARITY_ODD: "Odd",
    PARITY_MARK: "Mark",
    PARITY_SPACE: "Space",
}

STOPBITS_ONE: float = 1
STOPBITS_ONE_POINT_FIVE: float = 1.5
STOPBITS_TWO: float = 2

FIVEBITS, SIXBITS, SEVENBITS, EIGHTBITS = 5, 6, 7, 8


class SerialException(OSError):
    """Any error of a port except wrong arguments, which raise ValueError."""


class SerialTimeoutException(SerialException):
    """A write did not finish within ``write_timeout``."""


class PortNotOpenError(SerialException):
    """The port is closed."""

    def __init__(self) -> None:
        super().__init__("Attempting to use a port that is not open")


def to_bytes(seq: Any) -> bytes:
    """Return bytes, a buffer or an iterable of integers as bytes; TypeError for text."""
    if isinstance(seq, str):
        raise TypeError(f"text cannot be sent; encode it to bytes first: {seq!r}")
    if isinstance(seq, memoryview):
        return seq.tobytes()
    return bytes(seq) if isinstance(seq, bytes | bytearray) else bytes(bytearray(seq))


def iterbytes(b: Iterable[int]) -> Iterator[bytes]:
    """Yield the bytes one by one, each as bytes."""
    data = to_bytes(b)
    return (data[i : i + 1] for i in range(len(data)))


class Timeout:
    """A span of time that expires: None never, 0 at once. ``TIME`` is its clock.

    A subclass may have another clock. If that is set back, the span begins again.
    """

    TIME = staticmethod(time.monotonic)

    def __init__(self, duration: float | None) -> None:
        self.is_infinite: bool = duration is None
        self.is_non_blocking: bool = duration == 0
        self.duration = duration
        self.target_time = None if duration is None else self.TIME() + duration

    def expired(self) -> bool:
        """Return whether it has expired."""
        left = self.time_left()
        return left is not None and left <= 0

    def time_left(self) -> float | None:
        """Seconds left, None without an end."""
        if self.is_non_blocking:
            return 0
        if self.duration is None or self.target_time is None:
            return None
        left = self.target_time - self.TIME()
        if left > self.duration:
            self.target_time = self.TIME() + self.duration
            return self.duration
        return max(0.0, left)

    def restart(self, duration: float) -> None:
        """Begin again."""
        self.duration = duration
        self.target_time = self.TIME() + duration
