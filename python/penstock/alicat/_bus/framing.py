"""From bytes to lines.

Every reply line ends in a carriage return. Adapters and old firmware add line feeds, NULs and
spaces, which have no meaning and are dropped here, so that parsers see clean lines.
"""

from __future__ import annotations

from penstock.alicat.errors import AlicatParseError

__all__ = ["MAX_LINE", "LineBuffer"]

MAX_LINE = 8192
"""Longest line in bytes. The longest known reply, a GP instrument's whole gas list on one line,
is below 3 KiB; more than this is noise, or a port that is no instrument."""

_CR = 0x0D
_AROUND = b" \t\r\n\0"


class LineBuffer:
    """Splits a byte stream at carriage returns. No I/O; not thread-safe."""

    __slots__ = ("_buffer", "_scanned")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0

    def __len__(self) -> int:
        """The number of buffered bytes: complete lines, and the beginning of an unfinished one."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def next_line(self) -> bytes | None:
        """Take the next complete line that is not empty; ``None`` if there is none yet.

        Raises:
            AlicatParseError: the line is longer than :data:`MAX_LINE`; it is dropped.
        """
        buffer = self._buffer
        while buffer:
            end = buffer.find(_CR, self._scanned)
            if end > MAX_LINE or (end < 0 and len(buffer) > MAX_LINE):
                start = bytes(buffer[:60])
                del buffer[: end + 1 or len(buffer)]
                self._scanned = 0
                raise AlicatParseError(
                    f"a line of more than {MAX_LINE} bytes without a carriage return, beginning "
                    f"{start!r}: check the baud rate and that the port leads to an instrument",
                    field_name="line",
                    expected=f"a carriage return within {MAX_LINE} bytes",
                )
            if end < 0:
                self._scanned = len(buffer)
                return None
            line = bytes(buffer[:end]).strip(_AROUND)
            del buffer[: end + 1]
            self._scanned = 0
            if b"\0" in line or b"\n" in line:
                line = line.translate(None, b"\0\n").strip(_AROUND)
            if line:
                return line
        return None

    def take(self, data: bytes) -> bytes | None:
        """Add received bytes and take the next line, as :meth:`next_line` does."""
        # Nearly always a whole answer, which then needs no buffer.
        if not self._buffer and data.find(b"\r") == len(data) - 1 <= MAX_LINE:
            line = data.strip(_AROUND)
            if line and b"\0" not in line and b"\n" not in line:
                return line
        self.feed(data)
        return self.next_line()

    def clear(self) -> int:
        """Drop all buffered bytes, and return their number."""
        dropped = len(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        return dropped
