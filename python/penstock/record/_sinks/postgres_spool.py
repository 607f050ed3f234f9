"""Batches on disk that wait for a PostgreSQL server.

Each is a line of JSON with everything except its rows, followed by the rows in the form of COPY.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock._durable_files import sync_folder, write_fully
from penstock.record._sinks.files import explained, lock_file

__all__ = ["PostgresSpool", "SpooledBatch"]


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


class PostgresSpool:
    """A file that exists while it holds batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
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

    def read(self) -> list[SpooledBatch]:
        """All batches, without one that is incomplete after a kill."""
        found: list[SpooledBatch] = []
        with explained("read", self.path), open(self.path, "rb") as file:
            end = 0
            while (head := file.readline()).endswith(b"\n"):
                facts = json.loads(head)
                rows = file.read(size := facts.pop("bytes"))
                if len(rows) < size:
                    break
                found.append(SpooledBatch(**facts, rows=[rows]))
                end = file.tell()
            if end < os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, end)
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
