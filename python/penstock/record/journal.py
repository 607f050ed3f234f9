"""The rows that are not in a sealed Parquet row group yet, flushed batch by batch.

An Arrow IPC stream, readable by anything that reads Arrow (``pyarrow.ipc.open_stream``), whose
schema metadata say how long the Parquet file was and how many rows it held when the journal was
begun. A stream has no index at its end, so one that was cut off is whole up to its last complete
batch.
"""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arrow import METADATA_KEY, pyarrow_module
from .errors import RecoveryError
from .files import explained, write_fully

__all__ = ["Journal", "JournalContent", "journal_path", "read_journal"]

_SEALED_BYTES = b"penstock.sealed_bytes"
_SEALED_ROWS = b"penstock.sealed_rows"


def journal_path(path: Path) -> Path:
    """Where the journal of a Parquet file lies: ``run.parquet`` -> ``run.parquet.journal``."""
    return path.with_name(path.name + ".journal")


class _Collector(io.RawIOBase):
    """Gathers what the Arrow writer says, so that one flush is one system call."""

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
    """An open journal. Batches go through :meth:`append`; :meth:`close` leaves the file."""

    def __init__(self, path: Path, schema: Any, *, sealed_bytes: int, sealed_rows: int) -> None:
        """Write a new journal beside the old one, then take its name: there is always one."""
        pa = pyarrow_module()
        self.path = path
        self.rows = 0
        self._collector = _Collector()
        metadata = {
            **(schema.metadata or {}),
            _SEALED_BYTES: str(sealed_bytes).encode(),
            _SEALED_ROWS: str(sealed_rows).encode(),
        }
        self._writer = pa.ipc.new_stream(self._collector, schema.with_metadata(metadata))
        temporary = path.with_name(path.name + ".new")
        with explained("write", path):
            self._descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666
            )
            try:
                self._end = 0
                # Arrow writes a stream's head with its first batch only, so an empty one is sent
                # ahead: without it the file stays empty until the first row comes.
                self._writer.write_batch(_empty_batch(schema))
                self._flush()
                # The name must never point to a journal whose head is not on the disk yet.
                os.fsync(self._descriptor)
                os.replace(temporary, path)
            except BaseException:
                os.close(self._descriptor)
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

    def append(self, batch: Any, *, sync: bool) -> None:
        """Write one Arrow record batch; OSError leaves the batches before it whole."""
        self._writer.write_batch(batch)
        self._flush()
        if sync:
            os.fdatasync(self._descriptor)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Let go of the file without finishing it: its end marks nothing."""
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


@dataclass(frozen=True)
class JournalContent:
    """What could be read of a journal."""

    schema: Any
    batches: list[Any]
    sealed_bytes: int
    sealed_rows: int

    @property
    def rows(self) -> int:
        """Rows in the complete batches."""
        return sum(batch.num_rows for batch in self.batches)


def read_journal(path: Path) -> JournalContent:
    """Read a journal up to its last complete batch; RecoveryError if not even its head is."""
    pa = pyarrow_module()
    with explained("read", path), open(path, "rb") as file:
        batches: list[Any] = []
        try:
            reader = pa.ipc.open_stream(file)
            metadata = reader.schema.metadata
            sealed_bytes = int(metadata[_SEALED_BYTES])
            sealed_rows = int(metadata[_SEALED_ROWS])
        except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise RecoveryError(
                f"{path} is not the journal of a recording ({error}): "
                "remove it to keep what the Parquet file itself holds"
            ) from error
        # A torn end shows as an error of the reader; what came before it stands.
        with contextlib.suppress(pa.ArrowException, OSError, StopIteration):
            while True:
                batches.append(reader.read_next_batch())
    own = {METADATA_KEY: metadata[METADATA_KEY]} if METADATA_KEY in metadata else None
    return JournalContent(reader.schema.with_metadata(own), batches, sealed_bytes, sealed_rows)
