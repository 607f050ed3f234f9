"""How far the other side has a spool, in a file beside the segments."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

__all__ = ["SentMark"]

_NUMBER = struct.Struct("<Q")
_CHECKED = struct.Struct("<QI")


class SentMark:
    """The number of the first record that the other side may lack.

    Written after each record, and not synced: it survives a kill of the process, and after a power
    cut it is an older one, or unreadable. Then records are sent again. It is never newer than the
    log, whose records are durable before they are sent.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sent"
        self._descriptor = -1

    def open(self, first: int, count: int) -> int:
        """Open the file; the number in it if it is from ``first`` to ``count``, else ``first``.

        Another number is of segments that somebody has removed, whose numbers begin anew. OSError.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = os.pread(self._descriptor, _CHECKED.size, 0)
        number = first
        if len(data) == _CHECKED.size:
            found, checksum = _CHECKED.unpack(data)
            if checksum == crc32(data[: _NUMBER.size]) and first <= found <= count:
                number = found
        self.write(number)
        return number

    def write(self, number: int) -> None:
        """Replace the number. OSError."""
        data = _NUMBER.pack(number)
        os.pwrite(self._descriptor, _CHECKED.pack(number, crc32(data)), 0)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)
