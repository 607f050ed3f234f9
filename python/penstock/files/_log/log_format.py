r"""The bytes of an append log: how they are laid out, written and checked. No I/O in here.

All numbers are little-endian; checksums are CRC-32 as zlib, Ethernet and PNG compute it. A log is
one file header and the records after it, with nothing between them::

    file header, 24 bytes                      record, 24 bytes and the payload
     0  16  "penstock log 1\n\0"                0  4  the log's marker again
    16   4  marker, random for each log         4  4  length of the payload
    20   4  checksum of the 20 bytes before     8  8  offset in the file at which the commit began
                                               16  4  checksum of the payload
                                               20  4  checksum of the 20 bytes before
                                               24     payload

A *commit* is what one write and one fdatasync make durable: one or more records. A commit is
written only after the previous one is durable. So if a record of a later commit follows a damaged
record, acknowledged data were damaged (:class:`LogDamaged`). If none follows, the end of the file
is a torn tail: it was left by a write that was never acknowledged.

The marker is used to search for later records after a damaged one. It also distinguishes this log's
records from those of another log, in a payload or in a reused block of the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from zlib import crc32

__all__ = [
    "FILE_HEADER_SIZE",
    "MAX_PAYLOAD",
    "RECORD_HEADER_SIZE",
    "LogDamaged",
    "LogError",
    "NotALog",
    "RecordParser",
    "encode_header",
    "find_later_commit",
    "is_torn_file_header",
    "new_file_header",
    "parse_file_header",
]

_MAGIC = b"penstock log 1\n\0"
_FILE_HEADER = struct.Struct("<16s4sI")
_RECORD_HEADER = struct.Struct("<4sIQII")
_RECORD_CHECKED = struct.Struct("<4sIQI")
_CHECKED = 20  # bytes of either header that its checksum covers

FILE_HEADER_SIZE = _FILE_HEADER.size
RECORD_HEADER_SIZE = _RECORD_HEADER.size
MAX_PAYLOAD = 1 << 30
"""Largest payload in bytes (1 GiB): a header with a larger length is invalid."""


class LogError(Exception):
    """An error of an append log; ``path`` is the log's path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[1]}"


class NotALog(LogError):
    """The file holds something else, or a format that this version does not know."""


class LogDamaged(LogError):
    """Acknowledged records are damaged; the damage begins at ``offset``."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, reason)
        self.args = (path, offset, reason)
        self.offset = offset

    def __str__(self) -> str:
        path, offset, reason = self.args
        return (
            f"{path}: damaged at byte {offset} ({reason}), in records that were durable;"
            " nothing was changed. read_log() yields the records before it: copy them to a new log"
        )


def new_file_header() -> bytes:
    """Return the header of a new log, with a random marker."""
    checked = _MAGIC + os.urandom(4)
    return checked + crc32(checked).to_bytes(4, "little")


def parse_file_header(data: bytes) -> bytes | None:
    """Return the marker of the log that begins with ``data``; None if it is no log's header."""
    if len(data) < FILE_HEADER_SIZE:
        return None
    magic, marker, checksum = _FILE_HEADER.unpack_from(data)
    if magic != _MAGIC or checksum != crc32(data[:_CHECKED]):
        return None
    return bytes(marker)


def is_torn_file_header(data: bytes) -> bool:
    """Whether a file of just these bytes is a log whose creation was interrupted.

    No record was acknowledged then. An empty file counts, and one of zeros, which some file systems
    leave after a power cut. A file of another kind does not.
    """
    if len(data) > FILE_HEADER_SIZE:
        return False
    return not data.strip(b"\0") or data[: len(_MAGIC)] == _MAGIC[: len(data)]


def encode_header(marker: bytes, offset: int, payload: bytes, checksum: int) -> bytes:
    """Return the header of ``payload``, whose CRC-32 is ``checksum``.

    ``offset`` is where in the file the record's commit begins.
    """
    checked = _RECORD_CHECKED.pack(marker, len(payload), offset, checksum)
    return checked + crc32(checked).to_bytes(4, "little")


class RecordParser:
    """Parses the bytes after a log's file header, in pieces of any size, into payloads.

    Attributes:
        offset: where in the file the next record begins.
        count: records parsed so far.
        commit: where in the file the commit of the last record began.
        earlier: how many records belong to earlier commits.
        damage: why the bytes at ``offset`` are no record; None unless that is certain.
        needed: the least number of further bytes that the next record needs, while ``damage`` is
            None.
    """

    def __init__(self, marker: bytes, offset: int = FILE_HEADER_SIZE) -> None:
        self.offset = offset
        self.count = 0
        self.damage: str | None = None
        self.needed = RECORD_HEADER_SIZE
        self._marker = marker
        self.commit = 0
        self.earlier = 0
        self._data = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes, and iterate over the payloads that are complete now, each checked.

        Exhaust the iterator before the next call.
        """
        data = self._data + data if self._data else data
        position, size = 0, len(data)
        view = memoryview(data)
        while self.damage is None:
            begin = position + RECORD_HEADER_SIZE
            if begin > size:
                self.needed = begin - size
                break
            header = self._parse_header(data, position)
            if header is None:
                break
            length, commit, checksum = header
            end = begin + length
            if end > size:
                self.needed = end - size
                break
            if crc32(view[begin:end]) != checksum:
                self.damage = "the payload does not match its checksum"
                break
            position = end
            self._take(length, commit)
            yield data[begin:end]
        self._data = data[position:]

    @property
    def large_payload(self) -> int:
        """The length of the next record's payload if its header is buffered, else 0."""
        if self.damage is not None or len(self._data) < RECORD_HEADER_SIZE:
            return 0
        header = self._parse_header(self._data, 0)
        return 0 if header is None else header[0]

    def take_payload(self, checksum: int) -> bool:
        """Accept the next record, whose payload the caller has read, by the payload's CRC-32.

        Its buffered bytes are dropped. Returns False and sets ``damage`` if the checksum differs.
        """
        header = self._parse_header(self._data, 0)
        assert header is not None
        length, commit, expected = header
        if checksum != expected:
            self.damage = "the payload does not match its checksum"
            return False
        self._take(length, commit)
        self._data, self.needed = b"", RECORD_HEADER_SIZE
        return True

    def _take(self, length: int, commit: int) -> None:
        self.offset += RECORD_HEADER_SIZE + length
        if commit != self.commit:
            self.commit, self.earlier = commit, self.count
        self.count += 1

    @property
    def buffered(self) -> int:
        """Buffered bytes that are no complete record yet."""
        return len(self._data)

    def _parse_header(self, data: bytes, position: int) -> tuple[int, int, int] | None:
        marker, length, commit, checksum, header_checksum = _RECORD_HEADER.unpack_from(
            data, position
        )
        if marker != self._marker:
            self.damage = "no record begins here"
        elif header_checksum != crc32(data[position : position + _CHECKED]):
            self.damage = "the record's header does not match its checksum"
        elif length > MAX_PAYLOAD or commit not in (self.offset, self.commit):
            # The checksum is right, but this module does not write such headers.
            self.damage = "the record's header contradicts its place"
        else:
            return length, commit, checksum
        return None


def find_later_commit(marker: bytes, data: bytes, after: int) -> int | None:
    """Return where in ``data`` the first header is whose commit began after offset ``after``.

    None if there is none. A header that is cut by the end of ``data`` is not found: overlap pieces
    by ``RECORD_HEADER_SIZE - 1`` bytes.
    """
    position = data.find(marker)
    while position != -1 and position + RECORD_HEADER_SIZE <= len(data):
        _, _, commit, _, checksum = _RECORD_HEADER.unpack_from(data, position)
        if commit > after and checksum == crc32(data[position : position + _CHECKED]):
            return position
        position = data.find(marker, position + 1)
    return None
