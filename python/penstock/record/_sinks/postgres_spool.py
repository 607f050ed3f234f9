"""Batches on disk that wait for a PostgreSQL server.

Each is a line of JSON with everything except its rows, followed by the rows in the form of COPY.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from penstock._durable_files import sync_folder, write_fully
from penstock._torn_end import Cut, EndTooLargeError, cut_end
from penstock.record._sinks.files import explained, lock_file
from penstock.record.errors import RecoveryError

__all__ = ["PostgresSpool", "SpooledBatch"]

_HEAD_BEGINS = b'{"run": '
# A batch has at most 65,536 rows of some kilobytes each.
_LARGEST_BATCH = 1 << 28
_LONGEST_HEAD = 1 << 16
_LONGEST_LINE = 1 << 24  # of some thousand columns
_BLOCK = 1 << 20


@dataclass(slots=True)
class SpooledBatch:
    """Rows for a table.

    Attributes:
        run: identifies this batch, together with ``batch``.
        batch: counts up within the run.
        table: the name of the table.
        columns: the names of its columns.
        rows: in the binary form of COPY, in pieces.
        count: the number of rows.
    """

    run: str
    batch: int
    table: str
    columns: Sequence[str]
    rows: list[bytes] = field(default_factory=list)
    count: int = 0

    def head(self) -> bytes:
        """The line before the rows."""
        facts = {
            "run": self.run,
            "batch": self.batch,
            "table": self.table,
            "columns": self.columns,
            "count": self.count,
            "bytes": sum(map(len, self.rows)),
        }
        return json.dumps(facts).encode() + b"\n"


def _head_at(file: BinaryIO, size: int) -> dict[str, Any] | None:
    """What the head at the file's position says; None if no whole batch of ``size`` bytes begins.

    The position is then that of its rows.
    """
    head = file.readline(_LONGEST_LINE)
    try:
        facts = json.loads(head)
        rows = facts["bytes"]
        SpooledBatch(**{name: value for name, value in facts.items() if name != "bytes"})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    whole = head.endswith(b"\n") and isinstance(rows, int) and 0 <= rows <= size - file.tell()
    return facts if whole else None


def _ends(file: BinaryIO, size: int) -> int:
    """Where the whole batches from the file's position on end. None of them is read."""
    end = file.tell()
    while (facts := _head_at(file, size)) is not None:
        end = file.seek(facts["bytes"], os.SEEK_CUR)
    return end


def _follows(file: BinaryIO, end: int, size: int) -> bool:
    """Whether a whole batch is somewhere behind the beginning of the one at ``end``."""
    overlap = len(_HEAD_BEGINS) - 1
    at = end + 1
    while at < size:
        file.seek(at)
        block = file.read(_BLOCK)
        place = block.find(_HEAD_BEGINS)
        while place >= 0:
            file.seek(at + place)
            if _head_at(file, size) is not None:
                return True
            place = block.find(_HEAD_BEGINS, place + 1)
        at += max(1, len(block) - overlap) if len(block) == _BLOCK else len(block) or 1
    return False


def _may_be_torn_head(data: bytes) -> bool:
    written = data.strip(b"\0")
    return written.startswith(_HEAD_BEGINS) or _HEAD_BEGINS.startswith(written)


class PostgresSpool:
    """A file that exists while it holds batches.

    Attributes:
        cuts: what reading has cut off it, and where that is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cuts: list[Cut] = []
        self._descriptor = -1

    def lock(self) -> None:
        """Create and lock the file; SinkWriteError while another process has it."""
        with explained("create", self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
            try:
                lock_file(self._descriptor, self.path)
            except BaseException:
                os.close(self._descriptor)
                self._descriptor = -1
                raise
            sync_folder(os.fspath(self.path))

    def is_empty(self) -> bool:
        """True when no batch waits."""
        return self._descriptor < 0 or os.fstat(self._descriptor).st_size == 0

    def append(self, batches: Sequence[SpooledBatch]) -> None:
        """Add batches durably; SinkWriteError if the disk refuses, with the file as it was."""
        if not batches:
            return
        data = b"".join(piece for each in batches for piece in (each.head(), *each.rows))
        with explained("write", self.path):
            end = os.lseek(self._descriptor, 0, os.SEEK_END)
            try:
                write_fully(self._descriptor, data)
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, end)
                raise

    def read(self, *, force: bool = False) -> Iterator[SpooledBatch]:
        """All batches, each read when it is asked for: a server may have been away for weeks.

        One that a kill has torn is cut off at once, and kept beside the file.

        Raises:
            RecoveryError: there are batches behind one that cannot be read, without ``force``; or
                the file is not a spool. It is unchanged then.
            SinkWriteError: the disk refuses.
        """
        return self._batches(self._cut_torn_end(force))

    def _batches(self, end: int) -> Iterator[SpooledBatch]:
        at = 0
        while at < end:
            with explained("read", self.path), open(self.path, "rb") as file:
                file.seek(at)
                facts = _head_at(file, end)
                assert facts is not None, "it was whole"
                rows = file.read(facts.pop("bytes"))
                at = file.tell()
            yield SpooledBatch(**facts, rows=[rows])

    def _cut_torn_end(self, force: bool) -> int:
        """Leave whole batches alone; where they end."""
        with explained("read", self.path), open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            end = _ends(file, size)
            behind = end < size and _follows(file, end, size)
            more = "another batch follows the one that cannot be read" if behind else ""
            file.seek(0)
            if not (end or more or _may_be_torn_head(file.read(_LONGEST_HEAD))):
                raise RecoveryError(
                    f"{self.path} was not written by Penstock, as far as can be seen: it does not "
                    "begin as a spool does. It was left as it is; give another file for the spool"
                )
            try:
                cut = cut_end(
                    self._descriptor, self.path, end, force=force, more=more, most=_LARGEST_BATCH
                )
            except EndTooLargeError as error:
                raise RecoveryError(str(error)) from error
        if cut is not None:
            self.cuts.append(cut)
        return end

    def clear(self) -> None:
        """Drop the batches: the database has them."""
        with explained("empty", self.path):
            os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        """Unlock the file, and remove it if it is empty."""
        if self._descriptor >= 0:
            if self.is_empty():
                self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1
