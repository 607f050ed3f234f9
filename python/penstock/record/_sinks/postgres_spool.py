"""Batches on disk that wait for a PostgreSQL server.

Each is a line of JSON with everything except its rows, followed by the rows in the form of COPY.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from penstock._durable_files import sync_folder, write_fully
from penstock._torn_end import Cut, EndTooLargeError, cut_end
from penstock.record._sinks.files import explained, lock_file
from penstock.record.errors import RecoveryError

__all__ = ["PostgresSpool", "SpooledBatch"]

_HEAD_BEGINS = b'{"run": '
# A batch has at most 65,536 rows of some kilobytes each.
_LARGEST_BATCH = 1 << 28
_LONGEST_HEAD = 1 << 16


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


def _read_batch(file: BinaryIO) -> SpooledBatch | None:
    """The next batch of a spool; None at its end, or where it is torn or damaged."""
    head = file.readline()
    try:
        facts = json.loads(head)
        rows = file.read(size := facts.pop("bytes"))
        whole = head.endswith(b"\n") and 0 <= size == len(rows)
        return SpooledBatch(**facts, rows=[rows]) if whole else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _follows(file: BinaryIO) -> bool:
    """Whether the head of a batch is somewhere behind the beginning of the one at the position."""
    tail = file.read()
    at = tail.find(_HEAD_BEGINS, 1)
    while at >= 0:
        if _read_batch(BytesIO(tail[at:])) is not None:
            return True
        at = tail.find(_HEAD_BEGINS, at + 1)
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

    def read(self, *, force: bool = False) -> list[SpooledBatch]:
        """All batches. One that a kill has torn is cut off, and kept beside the file.

        Raises:
            RecoveryError: there are batches behind one that cannot be read, without ``force``; or
                the file is not a spool. It is unchanged then.
            SinkWriteError: the disk refuses.
        """
        found: list[SpooledBatch] = []
        with explained("read", self.path), open(self.path, "rb") as file:
            end = 0
            while (batch := _read_batch(file)) is not None:
                found.append(batch)
                end = file.tell()
            file.seek(end)
            more = "another batch follows the one that cannot be read" if _follows(file) else ""
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
        return found

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
