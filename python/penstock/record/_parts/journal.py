"""The rows of a part that is not final yet, flushed batch by batch.

An Arrow IPC stream, readable by anything that reads Arrow (``pyarrow.ipc.open_stream``). A stream
has no index at its end, so a stream that was cut off is readable up to its last complete batch.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.record._sinks.files import explained
from penstock.record.arrow import pyarrow_module
from penstock.record.errors import RecoveryError

__all__ = ["Journal", "read_journal"]


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
    """An open journal. The file has its name once its head is durable. All raise OSError."""

    def __init__(self, path: Path, schema: Any) -> None:
        pa = pyarrow_module()
        self.path = path
        self._collector = _Collector()
        self._writer = pa.ipc.new_stream(self._collector, schema)
        self._end = 0
        self._descriptor = -1
        put_file(path, lambda descriptor: self._begin(descriptor, schema))
        sync_folder(os.fspath(path))

    def _begin(self, descriptor: int, schema: Any) -> None:
        self._descriptor = descriptor
        # Arrow writes a stream's head with its first batch only, so an empty one is sent ahead:
        # without it the file stays empty until the first row comes.
        self._writer.write_batch(_empty_batch(schema))
        self._flush()

    def append(self, batches: Sequence[Any]) -> None:
        """Write Arrow record batches and make them durable.

        OSError leaves the batches before them whole.
        """
        for batch in batches:
            self._writer.write_batch(batch)
        self._flush()
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Release the file without finishing it: its end marks nothing."""
        os.close(self._descriptor)

    def _flush(self) -> None:
        data = self._collector.take()
        try:
            write_fully(self._descriptor, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(data)


def _empty_batch(schema: Any) -> Any:
    pa = pyarrow_module()
    return pa.RecordBatch.from_arrays(
        [pa.array([], type=field.type) for field in schema], schema=schema
    )


def read_journal(path: Path) -> Any:
    """A journal's table up to its last complete batch; RecoveryError if not even its head is."""
    pa = pyarrow_module()
    with explained("read", path), open(path, "rb") as file:
        batches: list[Any] = []
        try:
            reader = pa.ipc.open_stream(file)
        except pa.ArrowInvalid as error:
            raise RecoveryError(
                f"{path} is not the journal of a recording ({error}): "
                "remove it to keep the parts of the recording that are complete"
            ) from error
        # A torn end shows as an error of the reader; what came before it stands.
        with contextlib.suppress(pa.ArrowException, OSError, StopIteration):
            while True:
                batches.append(reader.read_next_batch())
    return pa.Table.from_batches(batches, schema=reader.schema)
