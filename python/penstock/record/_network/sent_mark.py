"""Whose a spool is, and how far the other side has it: two files beside the segments."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from zlib import crc32

from penstock._durable_files import put_file, write_fully

__all__ = ["Addressee", "SentMark"]

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


class Addressee:
    """The other side that a spool's records are for, as text without secrets.

    Records that are left are for it alone: another side that got them would have another
    recording's rows, and this one would never get its own.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "to"

    def claim(self, name: str, *, records_left: bool) -> None:
        """Write the name down.

        Raises:
            ValueError: records are left, and they are for another side.
            OSError: the file cannot be read or written.
        """
        earlier = ""
        with contextlib.suppress(FileNotFoundError):
            earlier = self._path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
        if records_left and earlier and earlier != name:
            raise ValueError(
                f"its rows are for {earlier}, not for {name}: give this sink another spool, or "
                f"remove {self._path} if they are to go to {name}"
            )
        if earlier != name:
            text = f"{name}\n".encode()
            put_file(self._path, lambda descriptor: write_fully(descriptor, text), mode=0o600)

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
