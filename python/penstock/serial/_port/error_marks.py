"""Damaged characters, as the kernel marks them in the stream (termios(3), PARMRK).

With PARMRK set, a character with a parity or framing error arrives as ``FF 00 c``, a break as
``FF 00 00``, and an undamaged ``FF`` is doubled. A break and a damaged NUL look the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Fault", "MarkedBytes", "decode_marks", "escape_marks"]

_MARK = re.compile(rb"\xff(?:\xff|\x00.|\Z|\x00\Z|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """One damaged character.

    Attributes:
        offset: Its place in the data that it arrived with.
        value: The value that arrived; 0 for a break or a damaged NUL.
    """

    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class MarkedBytes:
    """Received bytes without marks, and their faults in the order of the offsets."""

    data: bytes
    faults: tuple[Fault, ...] = ()


def decode_marks(raw: bytes) -> tuple[MarkedBytes, bytes]:
    """Remove the marks from ``raw``.

    Returns:
        The bytes with their faults, and an incomplete mark, which belongs before the next bytes.

    A lone ``FF`` followed by neither ``FF`` nor ``00``, which no kernel writes, counts as itself.
    """
    data = bytearray()
    faults: list[Fault] = []
    position = 0
    for found in _MARK.finditer(raw):
        data += raw[position : found.start()]
        mark = found.group()
        if len(mark) < 2 or mark == b"\xff\x00":
            return MarkedBytes(bytes(data), tuple(faults)), mark
        if len(mark) == 3:
            faults.append(Fault(len(data), mark[2]))
            data.append(mark[2])
            position = found.end()
        else:
            data.append(0xFF)
            position = found.end() if mark == b"\xff\xff" else found.start() + 1
    data += raw[position:]
    return MarkedBytes(bytes(data), tuple(faults)), b""


def escape_marks(data: bytes) -> bytes:
    """Return undamaged ``data`` as the kernel delivers it with PARMRK set."""
    return data.replace(b"\xff", b"\xff\xff")
