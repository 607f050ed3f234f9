r"""The bytes of an append log: how they are laid out, written and checked. No I/O in here.

All numbers are little-endian; checksums are CRC-32 as zlib, Ethernet and PNG compute it. A log is
one file header and the records after it, with nothing between them::

    file header, 24 bytes                      record of format 2, 28 bytes and the payload
     0  16  "penstock log 2\n\0"                0  4  the log's marker again
    16   4  marker, random for each log         4  4  length of the payload; the highest bit is set
    20   4  checksum of the 20 bytes before           if the next record belongs to the same batch
                                                8  8  the record's own offset in the file
                                               16  4  how many bytes before it its commit began
                                               20  4  checksum of the payload
                                               24  4  checksum of the 24 bytes before
                                               28     payload

    format 1: magic "penstock log 1\n\0"       record of format 1, 24 bytes and the payload
                                                0  4  the log's marker again
                                                4  4  length of the payload
                                                8  8  offset in the file at which the commit began
                                               16  4  checksum of the payload
                                               20  4  checksum of the 20 bytes before
                                               24     payload

A *commit* is what one write and one fdatasync make durable: one or more records. A commit is
written only after the previous one is durable. So if a record of a later commit follows a damaged
record, acknowledged data were damaged (:class:`LogDamaged`). If none follows, the end of the file
is a torn tail: it was left by a write that was never acknowledged.

A *batch* is what one call of ``append_many`` stores: a part of one commit, of which a reader takes
all records or none. Without its last record, a batch is part of the torn tail.

**Why a record holds its own offset.** In format 1 it held only where its commit began. The bytes of
the last commit, written once more after it (by a copy that was resumed at the wrong place, or a
block of the disk that the file system had used before), were therefore taken for further records of
that commit, and an order was paid twice. A record of format 2 is valid in one place only. What a
search finds after damage needs no doubt either: a copy of a log inside a payload of the same log
is at another place than its headers say.

*Rejected:* a running number instead of the offset. It refuses the repeated commit as well, but a
search after damage cannot tell what number is due. *Rejected:* a checksum that continues the
record before. One damaged record would make every later one unreadable, and nothing could be
salvaged. *Rejected:* the offset in the checksum alone, without a field. Each candidate of a search
would need its checksum computed, and a payload that repeats the marker made that slow (13 s for 64
MiB in format 1, in Python).

The marker is used to search for later records after a damaged one. It also distinguishes this log's
records from those of another log, in a payload or in a reused block of the disk.

A log of format 1 is read and continued in format 1: a program that has not been updated still reads
it. ``penstock log salvage`` copies it to one of format 2.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from penstock._core import find_log_header

_MAGIC = {version: b"penstock log %d\n\0" % version for version in (1, 2)}
_FILE_HEADER = struct.Struct("<16s4sI")
_FILE_CHECKED = 20  # bytes that the file header's checksum covers
_FORMAT_1 = struct.Struct("<4sIQI")
_FORMAT_2 = struct.Struct("<4sIQII")
_CHECKSUM = struct.Struct("<I")
_CONTINUED = 1 << 31

FILE_HEADER_SIZE = _FILE_HEADER.size
MAX_PAYLOAD = 1 << 30
"""Largest payload in bytes (1 GiB): a header with a larger length is invalid."""
MAX_BATCH = 64 << 20
"""Most bytes of a batch, headers included (64 MiB): a reader holds a batch in memory."""


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
        self.args: tuple[Any, ...] = (path, offset, reason)
        self.offset = offset

    def __str__(self) -> str:
        path, offset, reason = self.args
        return (
            f"{path}: damaged at byte {offset} ({reason}), in records that were durable;"
            " nothing was changed. Copy the good records to a new log:"
            f" penstock log salvage {path} --to NEW"
        )


class RecordHeader(NamedTuple):
    """What the header of a record says.

    Attributes:
        length: bytes of the payload.
        commit: where in the file the record's commit begins.
        checksum: CRC-32 of the payload.
        continued: whether the next record belongs to the same batch.
    """

    length: int
    commit: int
    checksum: int
    continued: bool


@dataclass(frozen=True)
class LogIdentity:
    """What the records of one log have in common: the format, and the marker."""

    version: int
    marker: bytes

    @property
    def header_size(self) -> int:
        """Bytes of a record's header."""
        return (_FORMAT_1.size if self.version == 1 else _FORMAT_2.size) + _CHECKSUM.size

    def encode_header(
        self, commit: int, place: int, length: int, checksum: int, *, continued: bool = False
    ) -> bytes:
        """Return the header of the record at offset ``place``, of a commit at ``commit``.

        ``checksum`` is the CRC-32 of its payload. Format 1 has no batches.
        """
        if self.version == 1:
            checked = _FORMAT_1.pack(self.marker, length, commit, checksum)
        else:
            tagged = length | _CONTINUED if continued else length
            checked = _FORMAT_2.pack(self.marker, tagged, place, place - commit, checksum)
        return checked + crc32(checked).to_bytes(4, "little")

    def parse_header(self, data: bytes, position: int, place: int) -> RecordHeader | str:
        """Return the header at ``position`` in ``data``, which is at ``place`` in the file.

        Or why it is none.
        """
        continued = False
        if self.version == 1:
            marker, length, commit, checksum = _FORMAT_1.unpack_from(data, position)
            size = _FORMAT_1.size
            in_place = commit <= place
        else:
            marker, tagged, own, distance, checksum = _FORMAT_2.unpack_from(data, position)
            size = _FORMAT_2.size
            length, continued, commit = tagged & ~_CONTINUED, tagged >= _CONTINUED, own - distance
            in_place = own == place and commit >= FILE_HEADER_SIZE
        if marker != self.marker:
            return "no record begins here"
        if _CHECKSUM.unpack_from(data, position + size)[0] != crc32(
            data[position : position + size]
        ):
            return "the record's header does not match its checksum"
        if length > MAX_PAYLOAD or not in_place:
            # The checksum is right: the record was copied to here from another place.
            return "the record's header contradicts its place"
        return RecordHeader(length, commit, checksum, continued)

    def find_header(self, data: bytes, base: int, after: int) -> int | None:
        """Return where in ``data`` the first header is whose commit began after ``after``.

        None if there is none. ``data`` is at offset ``base`` of the file. A header that is cut by
        the end of ``data`` is not found: overlap pieces by ``header_size - 1`` bytes. The GIL is
        released meanwhile.
        """
        found = find_log_header(data, self.marker, base, after, self.version)
        return None if found < 0 else found


def guess_identity(data: bytes, base: int) -> LogIdentity | None:
    """Return the identity by the first record's header in ``data``, which is at offset ``base``.

    For a log whose own header is damaged. None if no record begins in ``data``; overlap pieces by
    the 27 bytes of a header that may be cut.
    """
    for version in (2, 1):
        found = find_log_header(data, b"", base, FILE_HEADER_SIZE - 1, version)
        if found >= 0:
            return LogIdentity(version, data[found : found + 4])
    return None


def new_identity() -> LogIdentity:
    """Return the identity of a new log, with a random marker."""
    return LogIdentity(2, os.urandom(4))


def encode_file_header(log: LogIdentity) -> bytes:
    """Return the first bytes of a log's file."""
    checked = _MAGIC[log.version] + log.marker
    return checked + crc32(checked).to_bytes(4, "little")


def parse_file_header(data: bytes) -> LogIdentity | None:
    """Return the identity of the log that begins with ``data``; None for another header."""
    if len(data) < FILE_HEADER_SIZE:
        return None
    magic, marker, checksum = _FILE_HEADER.unpack_from(data)
    if checksum != crc32(data[:_FILE_CHECKED]):
        return None
    for version, known in _MAGIC.items():
        if magic == known:
            return LogIdentity(version, bytes(marker))
    return None


def is_torn_file_header(data: bytes) -> bool:
    """Whether a file of just these bytes is a log whose creation was interrupted.

    No record was acknowledged then. An empty file counts, and one of zeros, which some file systems
    leave after a power cut. A file of another kind does not.
    """
    if len(data) > FILE_HEADER_SIZE:
        return False
    return not data.strip(b"\0") or any(
        data[: len(magic)] == magic[: len(data)] for magic in _MAGIC.values()
    )


class RecordParser:
    """Parses the bytes after a log's file header, in pieces of any size, into payloads.

    The records of a batch are given out together, when its last one has been parsed.

    Attributes:
        offset: where in the file the next record begins.
        count: records given out so far.
        end: where in the file the last of them ends; ``offset``, unless a batch is not complete.
        commit: where in the file the commit of the last record given out began.
        earlier: how many records belong to earlier commits.
        damage: why the bytes at ``offset`` are not records; None unless that is certain.
        needed: the least number of further bytes that the next record needs, while ``damage`` is
            None.
    """

    def __init__(self, log: LogIdentity, offset: int = FILE_HEADER_SIZE, commit: int = 0) -> None:
        """``offset`` is that of a record, and ``commit`` that of its commit, if it began before."""
        self.offset = self.end = offset
        self.count = 0
        self.damage: str | None = None
        self.header_size = log.header_size
        self.needed = log.header_size
        self.commit = 0
        self.earlier = 0
        self._log = log
        self._commit = commit  # of the last record, which may be held
        self._held: list[bytes] = []  # of a batch that is not complete
        self._data = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes, and iterate over the payloads that are complete now, each checked.

        Exhaust the iterator before the next call.
        """
        data = self._data + data if self._data else data
        position, size = 0, len(data)
        view = memoryview(data)
        while self.damage is None:
            begin = position + self.header_size
            if begin > size:
                self.needed = begin - size
                break
            header = self._parse_header(data, position)
            if header is None:
                break
            end = begin + header.length
            if end > size:
                self.needed = end - size
                break
            if crc32(view[begin:end]) != header.checksum:
                self.damage = _OF_PAYLOAD
                break
            position = end
            yield from self._take(header, data[begin:end])
        self._data = data[position:]

    @property
    def large_payload(self) -> int:
        """The length of the next record's payload if its header is buffered, else 0."""
        if self.damage is not None or len(self._data) < self.header_size:
            return 0
        header = self._parse_header(self._data, 0)
        return 0 if header is None else header.length

    def take_payload(self, payload: bytes, checksum: int) -> list[bytes]:
        """Accept the next record, whose payload the caller has read, by the payload's CRC-32.

        Its buffered bytes are dropped. Returns the payloads that are complete now. Sets ``damage``
        if the checksum differs.
        """
        header = self._parse_header(self._data, 0)
        assert header is not None
        if checksum != header.checksum:
            self.damage = _OF_PAYLOAD
            return []
        self._data, self.needed = b"", self.header_size
        return self._take(header, payload)

    def _take(self, header: RecordHeader, payload: bytes) -> list[bytes]:
        self.offset += self.header_size + header.length
        self._commit = header.commit
        self._held.append(payload)
        if header.continued:
            return []
        given, self._held = self._held, []
        if header.commit != self.commit:
            self.commit, self.earlier = header.commit, self.count
        self.count += len(given)
        self.end = self.offset
        return given

    @property
    def held(self) -> list[bytes]:
        """The payloads of a batch whose further records are not parsed yet."""
        return self._held

    @property
    def buffered(self) -> int:
        """Bytes that belong to no record, or to no batch, that is complete."""
        return len(self._data) + self.offset - self.end

    def _parse_header(self, data: bytes, position: int) -> RecordHeader | None:
        header = self._log.parse_header(data, position, self.offset)
        if isinstance(header, str):
            self.damage = header
        elif header.commit != self._commit and (header.commit != self.offset or self._held):
            # The checksum is right, but no writer writes such a header here.
            self.damage = "the record's header contradicts its place"
        else:
            return header
        return None


_OF_PAYLOAD = "the payload does not match its checksum"
