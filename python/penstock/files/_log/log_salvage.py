"""Reading a damaged log to its end, and copying its good records to a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.files._backend import current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._log.log_file import feed_file, find_header
from penstock.files._log.log_format import (
    FILE_HEADER_SIZE,
    LogIdentity,
    NotALog,
    RecordHeader,
    RecordParser,
    encode_file_header,
    guess_identity,
    is_torn_file_header,
    new_identity,
    parse_file_header,
)

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_PIECE = 1 << 20
_OVERLAP = 27
_COMMIT_BYTES = 16 << 20


@dataclass(frozen=True)
class LogGap:
    """Bytes of a log that are not records.

    Attributes:
        begin: where they begin.
        end: where the next good record, or the end of the file, is.
        reason: why they are not records.
        torn: whether an unfinished write has left them, so that no acknowledged record is lost.
            Damage to the last commit looks the same.
        in_batch: whether they interrupt a batch, of which only a part is left.
    """

    begin: int
    end: int
    reason: str
    torn: bool = False
    in_batch: bool = False

    def __str__(self) -> str:
        what = "an unfinished write" if self.torn else "damaged"
        text = f"bytes {self.begin} to {self.end}: {what} ({self.reason})"
        return f"{text}; a batch is not complete there" if self.in_batch else text


@dataclass(frozen=True)
class LogReport:
    """What a log holds.

    Attributes:
        path: the log's file.
        format: 1 or 2; None if the creation of the log was interrupted.
        size: bytes of the file.
        records: good records.
        gaps: what is not a record, in the order of the file.
    """

    path: str
    format: int | None
    size: int
    records: int
    gaps: tuple[LogGap, ...]

    @property
    def damaged(self) -> bool:
        """Whether acknowledged records are damaged. A torn end alone is not damage."""
        return any(not gap.torn for gap in self.gaps)


async def check_log(path: StrOrBytesPath) -> LogReport:
    """Read the log at ``path`` to its end, whatever is damaged, on a worker thread.

    The file is not changed, and its lock is not needed. What a writer appends meanwhile may be
    missing, or be reported as a torn end.

    Cancellation: raised after the piece that is being read.

    Raises:
        NotALog: if the file holds no record and no header of a log.
        OSError: with the file's name.
    """
    return await run_whole(partial(_in_worker, _check, os.fsdecode(path)))


async def salvage_log(path: StrOrBytesPath, target: StrOrBytesPath) -> LogReport:
    """Copy every good record of the log at ``path`` to a new log at ``target``, durably.

    The records keep their order. Those of a batch of which a part is damaged are copied too, and
    are single records in the new log. ``target`` appears when it is complete.

    Cancellation: raised after the piece that is being copied; there is no ``target`` then.

    Raises:
        FileExistsError: if there is a file ``target``.
        NotALog, OSError: as :func:`check_log` does, or with the name ``target``.
    """
    return await run_whole(
        partial(_in_worker, partial(_salvage, os.fsdecode(target)), os.fsdecode(path))
    )


async def _in_worker(work: Callable[[ScannedLog, Stop], None], path: str, stop: Stop) -> LogReport:
    def run() -> LogReport:
        with closing(ScannedLog(path)) as log:
            work(log, stop)
            version = None if log.identity is None else log.identity.version
            return LogReport(path, version, log.size, log.records, tuple(log.gaps))

    return await stop.step(current_backend().call(run))


def _check(log: ScannedLog, stop: Stop) -> None:
    for _ in log:
        stop.check()


def _salvage(target: str, log: ScannedLog, stop: Stop) -> None:
    def payloads() -> Iterator[bytes]:
        for payload in log:
            stop.check()
            yield payload

    copy_records(payloads(), target)


class ScannedLog:
    """A log that is read to its end, whatever is damaged. Its functions block.

    :attr:`gaps` grows while the records are iterated over.

    Raises:
        NotALog: if no record and no header of a log is found in the file.
        OSError: with the file's name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.gaps: list[LogGap] = []
        self.records = 0
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            self.size = os.fstat(self._fd).st_size
            self.identity = self._find_identity()
        except BaseException as error:
            os.close(self._fd)
            if isinstance(error, OSError):
                error.filename = error.filename or path
            raise

    def close(self) -> None:
        os.close(self._fd)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the payloads of all good records, in their order in the file.

        Records of a batch of which a part is damaged are included.
        """
        if self.identity is None:  # the creation of the log was interrupted
            return
        parser = RecordParser(self.identity)
        while True:
            for payload in feed_file(self._fd, parser, self.size):
                self.records += 1
                yield payload
            for payload in parser.held:
                self.records += 1
                yield payload
            if parser.damage is None and parser.offset >= self.size:
                if parser.held:
                    self.gaps.append(
                        LogGap(self.size, self.size, "the last batch is not complete", True, True)
                    )
                return
            following = self._after(parser)
            if following is None:
                return
            place, header = following
            parser = RecordParser(self.identity, place, header.commit)

    def _after(self, parser: RecordParser) -> tuple[int, RecordHeader] | None:
        """Note the gap at the parser's place; return the next good header."""
        assert self.identity is not None
        begin, reason = parser.offset, parser.damage or "the last record is not complete"
        head = os.pread(self._fd, parser.header_size, begin)
        header = (
            self.identity.parse_header(head, 0, begin) if len(head) == parser.header_size else ""
        )
        # A header that is right says where the next one is, whatever its payload holds.
        start = begin + 1
        if isinstance(header, RecordHeader):
            start = min(begin + parser.header_size + header.length, self.size)
        following = find_header(self._fd, self.identity, start, self.size, after=-1)
        torn = find_header(self._fd, self.identity, begin, self.size, after=begin) is None
        end = self.size if following is None else following[0]
        continued = isinstance(header, RecordHeader) and header.continued
        self.gaps.append(LogGap(begin, end, reason, torn, bool(parser.held) or continued))
        return following

    def _find_identity(self) -> LogIdentity | None:
        head = os.pread(self._fd, FILE_HEADER_SIZE + 1, 0)
        identity = parse_file_header(head)
        if identity is not None or is_torn_file_header(head):
            return identity
        position = FILE_HEADER_SIZE
        while position < self.size:
            data = os.pread(self._fd, _PIECE, position)
            identity = guess_identity(data, position)
            if identity is not None:
                self.gaps.append(LogGap(0, FILE_HEADER_SIZE, "the header of the file is damaged"))
                return identity
            if len(data) < _PIECE:
                break
            position += len(data) - _OVERLAP
        raise NotALog(self.path, "is not a Penstock log: it has neither a header nor any record")


def copy_records(payloads: Iterable[bytes], path: str) -> None:
    """Write a new log of these records to ``path``, durably; it appears when it is complete.

    Raises:
        FileExistsError: if the name is taken.
        OSError: with the file's name; no file is left.
    """
    log = new_identity()

    def fill(fd: int) -> None:
        parts = [encode_file_header(log)]
        commit = place = FILE_HEADER_SIZE
        for payload in payloads:
            header = log.encode_header(commit, place, len(payload), crc32(payload))
            parts += (header, payload)
            place += len(header) + len(payload)
            if place - commit >= _COMMIT_BYTES:
                write_fully(fd, b"".join(parts))
                parts, commit = [], place
        write_fully(fd, b"".join(parts))

    os.close(put_file(path, fill, overwrite=False))
    sync_folder(path)
