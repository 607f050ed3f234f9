"""Writes the seals of a file that grows, beside it.

The file of seals has a head and then lines of one length. The last range of the file under
recording is sealed again at each sync, by one more line of kind ``open``, until it has
:data:`_RANGE_BYTES`. Then its line of kind ``full`` takes the place of its first ``open`` line,
and the lines of the next range follow it, over those that are left of this one. So there is a
line for each 64 KiB, however small the loss window, and the line of what was last synced is never
the one that is being overwritten.

A seal is written once the data that it is of are durable. The seals themselves are synced at most
once a second: after a power cut a second's rows may be unproven, and are there nevertheless.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock._torn_end import torn_path
from penstock.record._seals.digests import (
    DigestThread,
    SigningKey,
    digest_name,
    digest_of,
    new_digest,
)
from penstock.record._seals.line_end_changes import has_changed_line_ends
from penstock.record._seals.seal import (
    ENDS,
    Seal,
    head_line,
    read_seals,
    seal_before_digest,
    seal_line,
    seals_path,
)
from penstock.record.errors import RecordError, SinkExistsError

_RANGE_BYTES = 65_536
_SYNC_S = 1.0
_PIECE = 1 << 20
_HASHED_TOGETHER = 1 << 18


class SealWriter:
    """The seals of one file under recording. All methods raise OSError.

    Called by one thread at a time. ``update`` tells what is written, ``seal`` that it is durable.
    """

    def __init__(
        self, path: Path, descriptor: int, at: int, last: Seal, key: SigningKey | None
    ) -> None:
        self.path = path
        self._descriptor = descriptor
        self._key = key
        self._at = at  # where the line of the present range belongs
        self._next = at  # where its next line goes
        self._full: list[bytes] = []  # lines that are not written yet
        self._digest_name = digest_name(signed=key is not None)
        self._thread = DigestThread(self._digest_name)
        self._synced_at = time.monotonic()
        self._open_line = b""
        self._first_ns = self._last_ns = 0
        self._digest = new_digest(self._digest_name)
        self._begin_range(last.number + 1, last.end, last.rows, last.digest)

    @classmethod
    def create(cls, of: Path, key: SigningKey | None, *, overwrite: bool) -> SealWriter:
        """Begin the seals of the new file ``of``.

        SinkExistsError if there are seals already, unless it overwrites. A file of seals without a
        seal is none: a creation that failed, or was killed, has left it.
        """
        path = seals_path(of)
        overwrite = overwrite or _is_without_seals(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if overwrite else os.O_EXCL)
        try:
            descriptor = os.open(path, flags, 0o666)
        except FileExistsError as error:
            raise SinkExistsError(
                f"{path} already exists, and {of.name} does not: move it, or choose another name"
            ) from error
        try:
            os.ftruncate(descriptor, 0)
            digest = digest_name(signed=key is not None)
            public_key = key.public.hex() if key is not None else ""
            head = head_line(digest, secrets.token_hex(8), public_key)
            _write_at(descriptor, head, 0)
            sync_folder(os.fspath(path))
        except BaseException:
            os.close(descriptor)
            raise
        nothing = Seal(-1, "", 0, 0, 0, 0, 0, 0, b"", digest_of(digest, head))
        return cls(path, descriptor, len(head), nothing, key)

    @classmethod
    def resume(cls, of: Path, size: int, rows: int, key: SigningKey | None) -> SealWriter:
        """Continue the seals of the file ``of``, which has ``rows`` rows in ``size`` bytes.

        What it has after its last seal is sealed as found. A file without seals gets them; those
        that cannot be read are kept under another name.

        RecordError if they are signed by another key, or are signed and ``key`` is None.
        """
        path = seals_path(of)
        found = read_seals(path)
        if found is not None and found.public_key and found.fault == "":
            _check_key(path, found.public_key, key)
        if found is not None and found.fault:
            number = 1
            while torn_path(path, number).exists():
                number += 1
            os.rename(path, torn_path(path, number))
            found = None
        if found is None:
            writer = cls.create(of, key, overwrite=False)
        else:
            end = found.end
            if found.damaged and not found.gaps:
                # A kill has torn a line that was to take the place of another, which is there.
                lines = [seal_line(s.before_digest, s.digest, s.signature) for s in found.seals]
                tidy = found.head + b"".join(lines)
                os.close(put_file(path, lambda descriptor: write_fully(descriptor, tidy)))
                end = len(tidy)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, end)
            except BaseException:
                os.close(descriptor)
                raise
            writer = cls(path, descriptor, end, found.last, key)
        try:
            writer._seal_found(of, size, rows)
        except BaseException:
            writer.abandon()
            raise
        return writer

    def update(self, data: bytes, rows: int, first_ns: int, last_ns: int) -> None:
        """Add what is being written: ``rows`` rows, and the time stamps of the outer ones."""

        def work() -> None:
            self._digest.update(data)
            self._end += len(data)
            if rows:
                self._rows += rows
                self._first_ns = self._first_ns or first_ns
                self._last_ns = last_ns
            if self._end - self._start >= _RANGE_BYTES:
                self._finish_range("full")

        self._thread.run(work, len(data))

    def seal(self) -> None:
        """Seal what was added: it is durable now."""
        self._thread.wait()
        at = self._at - sum(map(len, self._full))
        lines = b"".join(self._full)
        self._full.clear()
        if lines:
            _write_at(self._descriptor, lines, at)
            self._next = self._at
        if self._end > self._start:
            line, _ = self._line("open")
            if line != self._open_line:
                _write_at(self._descriptor, line, self._next)
                self._next += len(line)
                self._open_line = line
                lines = line
        if lines and time.monotonic() - self._synced_at >= _SYNC_S:
            os.fdatasync(self._descriptor)
            self._synced_at = time.monotonic()

    def close(self, ended: str) -> None:
        """Seal the last range, telling how the run has ended, and make all seals durable."""
        if self._descriptor < 0:
            return
        try:
            self._thread.wait()
            self._finish_range(ended)
            self.seal()
            os.ftruncate(self._descriptor, self._at)
            os.fsync(self._descriptor)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the file as it is."""
        self._thread.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _begin_range(self, number: int, start: int, rows: int, previous: bytes) -> None:
        self._number = number
        self._start = self._end = start
        self._first_row = self._rows = rows
        self._first_ns = self._last_ns = 0
        self._previous = previous
        self._digest = new_digest(self._digest_name, previous)
        self._open_line = b""

    def _line(self, kind: str) -> tuple[bytes, bytes]:
        """The line of the present range, and its digest."""
        seal = Seal(
            self._number,
            kind,
            self._start,
            self._end,
            self._first_row,
            self._rows,
            self._first_ns,
            self._last_ns,
            self._previous,
        )
        before = seal_before_digest(seal)
        digest = self._digest.copy()
        digest.update(before)
        result = digest.digest()
        signature = self._key.sign(result) if self._key is not None else b""
        return seal_line(before, result, signature), result

    def _finish_range(self, kind: str) -> None:
        line, digest = self._line(kind)
        self._full.append(line)
        self._at += len(line)
        self._begin_range(self._number + 1, self._end, self._rows, digest)

    def _seal_found(self, of: Path, size: int, rows: int) -> None:
        """Seal what lies after the last seal, which nobody saw being written."""
        self._start = self._end = min(self._start, size)
        self._first_row = min(self._first_row, rows)
        self._rows = rows
        with open(of, "rb") as file:
            file.seek(self._start)
            while self._end < size and (piece := file.read(min(_PIECE, size - self._end))):
                self._digest.update(piece)
                self._end += len(piece)
        self._finish_range("found")
        self.seal()


def seal_what_is_found(of: Path, size: int, rows: int, key: SigningKey | None) -> None:
    """Seal what a run that was cut off has written after its last seal, if anything.

    A run that has ended as it should has nothing there; what is there then is somebody else's.
    Without their key, signed seals stay as they are, and so do those of a text whose line ends were
    changed: none of its bytes is where it was. RecordError if they are signed with another.
    """
    found = read_seals(seals_path(of))
    if found is None or found.fault or (found.public_key and key is None):
        return
    if found.last.kind in ENDS or found.last.end >= size or has_changed_line_ends(of):
        return
    # A signature among seals without any would prove nothing.
    writer = SealWriter.resume(of, size, rows, key if found.public_key else None)
    try:
        os.fsync(writer._descriptor)
    finally:
        writer.abandon()


class WholeFileSeal:
    """The only seal of a file that is written at once. ``write`` gets all its bytes, in order."""

    def __init__(self, key: SigningKey | None) -> None:
        self._key = key
        digest = digest_name(signed=key is not None)
        public_key = key.public.hex() if key is not None else ""
        self._head = head_line(digest, secrets.token_hex(8), public_key)
        self._begin = digest_of(digest, self._head)
        self._digest = new_digest(digest, self._begin)
        self._thread = DigestThread(digest)
        self._pieces: list[bytes] = []  # pages are small, and a hop to the thread costs as much
        self._unhashed = 0
        self._size = self._rows = 0
        self._first_ns = self._last_ns = 0

    def add_rows(self, stamps: Any) -> None:
        """Add rows that are in it, by their Arrow column of time stamps."""
        if len(stamps):
            self._first_ns = self._first_ns or stamps[0].value
            self._last_ns = stamps[-1].value
            self._rows += len(stamps)

    def write(self, data: bytes) -> None:
        """Add bytes of the file."""
        self._size += len(data)
        self._pieces.append(data)
        self._unhashed += len(data)
        if self._unhashed >= _HASHED_TOGETHER:
            self._hash()

    def _hash(self) -> None:
        pieces, size = self._pieces, self._unhashed
        self._pieces, self._unhashed = [], 0
        self._thread.run(lambda: self._digest.update(b"".join(pieces)), size)

    def finish(self, of: Path, ended: str) -> None:
        """Put the seals beside ``of``, in one step. OSError."""
        self._hash()
        self._thread.close()
        stamps = self._first_ns, self._last_ns
        seal = Seal(0, ended, 0, self._size, 0, self._rows, *stamps, self._begin)
        before = seal_before_digest(seal)
        self._digest.update(before)
        result = self._digest.digest()
        signature = self._key.sign(result) if self._key is not None else b""
        content = self._head + seal_line(before, result, signature)
        path = seals_path(of)
        os.close(put_file(path, lambda descriptor: write_fully(descriptor, content)))
        sync_folder(os.fspath(path))


def _write_at(descriptor: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def _is_without_seals(path: Path) -> bool:
    found = read_seals(path)
    if found is None or found.seals or found.damaged:
        return False
    return not found.fault or path.stat().st_size == 0


def _check_key(path: Path, public_key: str, key: SigningKey | None) -> None:
    if key is None:
        raise RecordError(
            f"{path} is signed, and what follows would not be: give the same key (--sign KEY)"
        )
    if key.public.hex() != public_key:
        raise RecordError(f"{path} is signed with another key: give that one, or begin a new file")
