"""The rows of a part that is not final yet, flushed batch by batch.

An Arrow IPC stream, readable by anything that reads Arrow (``pyarrow.ipc.open_stream``). A stream
has no index at its end, so a stream that was cut off is readable up to its last complete batch.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.record._files.files import explained
from penstock.record._seals.digests import SigningKey
from penstock.record._seals.seal import seals_path
from penstock.record._seals.seal_writer import SealWriter
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, reason_of
from penstock.record.errors import RecoveryError

_STREAM_ENDS: tuple[type[Exception], ...] = (*UNREADABLE, StopIteration)
_CONTINUATION = b"\xff\xff\xff\xff"  # the first bytes of each message of a stream


class _Collector(io.RawIOBase):
    """Collects the output of the Arrow writer, so that one flush is one system call."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self.parts)
        self.parts.clear()
        return data


class Journal:
    """An open journal. The file has its name once its head is durable. All raise OSError.

    ``sealed`` says whether it has seals, and ``key`` signs them.
    """

    def __init__(
        self, path: Path, schema: Any, *, sealed: bool = True, key: SigningKey | None = None
    ) -> None:
        pa = pyarrow_module()
        self.path = path
        self._collector = _Collector()
        self._writer = pa.ipc.new_stream(self._collector, schema)
        self._end = 0
        self._descriptor = -1
        self._seals = SealWriter.create(path, key, overwrite=True) if sealed else None
        put_file(path, lambda descriptor: self._begin(descriptor, schema))
        sync_folder(os.fspath(path))

    def _begin(self, descriptor: int, schema: Any) -> None:
        self._descriptor = descriptor
        # Arrow writes a stream's head with its first batch only, so an empty one is sent ahead:
        # without it the file stays empty until the first row comes.
        self._writer.write_batch(_empty_batch(schema))
        self._flush(0, (0, 0))

    def append(self, batches: Sequence[Any]) -> None:
        """Write Arrow record batches and make them durable.

        OSError leaves the batches before them whole.
        """
        for batch in batches:
            self._writer.write_batch(batch)
        rows = sum(batch.num_rows for batch in batches)
        first, last = batches[0].column("t_utc")[0], batches[-1].column("t_utc")[-1]
        self._flush(rows, (first.value, last.value))
        os.fdatasync(self._descriptor)
        if self._seals is not None:
            self._seals.seal()

    def close(self) -> None:
        """Release the file without finishing it: its end marks nothing."""
        if self._seals is not None:
            self._seals.abandon()
        os.close(self._descriptor)

    def _flush(self, rows: int, stamps: tuple[int, int]) -> None:
        data = self._collector.take()
        try:
            write_fully(self._descriptor, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(data)
        if self._seals is not None:
            self._seals.update(data, rows, *stamps)


def remove_journal(path: Path) -> None:
    """Remove a journal and its seals. OSError."""
    path.unlink(missing_ok=True)
    seals_path(path).unlink(missing_ok=True)


def _empty_batch(schema: Any) -> Any:
    pa = pyarrow_module()
    return pa.RecordBatch.from_arrays(
        [pa.array([], type=field.type) for field in schema], schema=schema
    )


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal holds.

    Attributes:
        table: the rows up to the last batch that can be read.
        end: where that batch ends.
        size: of the file.
        fault: what is wrong after ``end``; empty if nothing is there.
        more: what is after it that is more than a kill can tear, as the part of a sentence.
    """

    table: Any
    end: int
    size: int
    fault: str = ""
    more: str = ""


def read_journal(path: Path) -> JournalContent:
    """A journal up to its last complete batch; RecoveryError if not even its head is.

    Each batch is validated before it is used: one with offsets out of its bounds would end the
    process.
    """
    pa = pyarrow_module()
    with explained("read", path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        batches: list[Any] = []
        try:
            reader = pa.ipc.open_stream(file)
        except UNREADABLE as error:
            raise RecoveryError(
                f"{path} is not the journal of a recording ({reason_of(error)}): "
                "move it elsewhere to keep the parts of the recording that are complete"
            ) from error
        end = file.tell()
        fault = more = ""
        try:
            while end < size:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                batches.append(batch)
                end = file.tell()
        except _STREAM_ENDS as error:
            fault = reason_of(error)
            file.seek(end)
            if (others := _whole_batches(file.read())) > 0:
                more = f"{others} whole batches follow the one that cannot be read"
    return JournalContent(pa.Table.from_batches(batches, reader.schema), end, size, fault, more)


def _whole_batches(tail: bytes) -> int:
    """How many batches of a stream lie after the damaged message with which ``tail`` begins.

    Dictionaries do not count: a kill may leave those of a batch, and tear the batch.
    """
    pa = pyarrow_module()
    buffer = pa.py_buffer(tail)  # a copy for each place would take hours for a large journal
    count = 0
    at = tail.find(_CONTINUATION, len(_CONTINUATION))
    while at >= 0:
        following = at + len(_CONTINUATION)
        # Columns of ones have the continuation everywhere, but no length after it.
        if 0 < int.from_bytes(tail[following : following + 4], "little", signed=True) < len(tail):
            try:
                message = pa.ipc.read_message(buffer.slice(at))
                whole = message.type == "record batch" and message.body is not None
            except UNREADABLE:
                whole = False
            count += whole
        at = tail.find(_CONTINUATION, following)
    return count
