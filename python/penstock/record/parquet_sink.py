"""Recording into Parquet: one file that is complete after every sealed row group."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .arrow import arrow_schema, pyarrow_module
from .batch import SampleBatch
from .errors import SinkExistsError, SinkSchemaError, SinkWriteError
from .files import create_file, explain, explained, part_path, sync_directory, write_fully
from .journal import Journal, journal_path
from .parquet_footer import MAGIC, ParquetFooter, split_file
from .schema import RecordSchema
from .sink import PathSink

__all__ = ["Compression", "ParquetFile", "ParquetSink", "encode_rows"]

Compression = Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"]
_COMPRESSIONS = ("zstd", "snappy", "gzip", "brotli", "lz4", "none")

ROW_GROUP_ROWS = 65_536
_LARGEST_ROW_GROUP = 1_048_576
# A footer lists all row groups, so n of them take n^2/2 entries of some 1 KB in all. Letting row
# groups grow to 1/32 of what is recorded keeps that below a twentieth of the file.
_ROW_GROUPS_BEFORE_GROWTH = 32

_DELTA_CODED = ("t_utc", "t_mono_ns", "requested_at", "received_at")


class ParquetSink(PathSink):
    """Writes ``path`` as Parquet, with a journal ``path.journal`` while it is recording.

    Rows go into the journal at every flush and are sealed into the Parquet file ``row_group_rows``
    at a time (more as the recording grows); the file is a valid Parquet file after each seal.
    ``close`` seals the rest and removes the journal. If the process is killed, the Parquet file
    holds all sealed row groups and the journal the rows since:
    :func:`penstock.record.recover` (``penstock record --recover run.parquet``) joins them.

    ``open`` raises SinkExistsError when the file or a journal of it is there, unless
    ``overwrite``; the old content goes when the first batch comes. Sealed row groups are always
    forced to the disk; ``fsync="batch"`` does so with every flush of the journal too.

    A batch with a field that the file has no column for begins a new file, ``run.part2.parquet``.
    ``paths`` lists the files written. Needs pyarrow (SinkDependencyError at ``open``).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Compression = "zstd",
        overwrite: bool = False,
        row_group_rows: int = ROW_GROUP_ROWS,
        fsync: Literal["close", "batch"] = "close",
    ) -> None:
        if compression not in _COMPRESSIONS:
            raise ValueError(
                f"unknown compression {compression!r}: use one of {', '.join(_COMPRESSIONS)}"
            )
        if not 1 <= row_group_rows <= _LARGEST_ROW_GROUP:
            raise ValueError(
                f"row_group_rows must lie between 1 and {_LARGEST_ROW_GROUP}, "
                f"not {row_group_rows!r}"
            )
        super().__init__(
            ParquetFile(
                Path(path),
                compression=compression,
                overwrite=overwrite,
                row_group_rows=row_group_rows,
                fsync_batches=fsync == "batch",
            )
        )


class ParquetFile:
    """The synchronous half of :class:`ParquetSink`."""

    def __init__(
        self,
        path: Path,
        *,
        compression: Compression,
        overwrite: bool,
        row_group_rows: int,
        fsync_batches: bool,
    ) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._compression = compression
        self._overwrite = overwrite
        self._row_group_rows = row_group_rows
        self._fsync_batches = fsync_batches
        self._descriptor = -1
        self._existed = False
        self._schema: RecordSchema | None = None
        self._footer: ParquetFooter | None = None
        self._end = 0
        self._journal: Journal | None = None
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._failed = False

    def open(self) -> None:
        # Before the file, and before any instrument is asked: the imports take half a second.
        pyarrow_module("pyarrow.compute")
        pyarrow_module("pyarrow.parquet")
        self._create(self.path)

    def write(self, batch: SampleBatch) -> None:
        if self._failed or self._descriptor < 0:
            raise SinkWriteError(f"{self.path} takes no more samples after an earlier error")
        if self._schema is None:
            self._begin(batch.schema)
        elif not self._schema.covers(batch.schema.fields):
            self._begin_part(batch.schema)
        if not len(batch):
            return
        assert self._schema is not None and self._journal is not None
        rows = batch.fitted(self._schema).to_arrow()
        self._pending.append(rows)
        self._pending_rows += len(batch)
        try:
            if self._pending_rows >= self._seal_at():
                # On disk as a row group in a moment: the journal need not hold it first.
                self._seal()
                self._restart_journal()
            else:
                self._journal.append(rows, sync=self._fsync_batches)
        except OSError as error:
            self._failed = True
            raise explain("write", self.paths[-1], error) from error
        except SinkWriteError:
            self._failed = True
            raise

    def close(self, facts: Mapping[str, Any]) -> None:
        if self._descriptor < 0:
            return
        if self._schema is None:
            self._discard()
            return
        try:
            self._finish_part(facts)
        finally:
            self._release()

    def _create(self, path: Path) -> None:
        journal = journal_path(path)
        with explained("create", path):
            self._existed = path.exists()
            journal_left = journal.exists()
        if journal_left and not self._overwrite:
            raise SinkExistsError(
                f"{journal} is left from a recording that was cut off: run "
                f"penstock record --recover {path} first, or choose another name"
            )
        self._descriptor = create_file(path, overwrite=self._overwrite)
        self.paths.append(path)

    def _discard(self) -> None:
        """Nothing was recorded: take away what ``open`` put there."""
        self._release()
        path = self.paths.pop()
        if not self._existed:
            with explained("remove", path):
                path.unlink(missing_ok=True)

    def _begin(self, schema: RecordSchema) -> None:
        path = self.paths[-1]
        empty = encode_rows(arrow_schema(schema).empty_table(), self._compression)
        _, footer = split_file(empty)
        with explained("write", path):
            os.ftruncate(self._descriptor, 0)
            write_fully(self._descriptor, empty)
            os.fsync(self._descriptor)
            sync_directory(path)
        self._end = len(empty)
        self._footer = ParquetFooter(footer)
        self._schema = schema
        self._restart_journal()

    def _begin_part(self, schema: RecordSchema) -> None:
        assert self._schema is not None
        widened = self._schema
        for field in schema.fields:
            known = widened.kind_of(field.name)
            if known is not None and known != field.kind:
                raise SinkSchemaError(
                    f"field {field.name!r} was {known} so far and is {field.kind} in this batch: "
                    f"record it to another file than {self.path}"
                )
            if known is None:
                widened = widened.with_field(field)
        next_path = part_path(self.path, len(self.paths) + 1)
        self._finish_part({"continued_in": next_path.name})
        self._release()
        self._schema = None
        self._create(next_path)
        self._begin(widened)

    def _seal_at(self) -> int:
        assert self._footer is not None
        grown = self._footer.rows // _ROW_GROUPS_BEFORE_GROWTH
        return min(max(self._row_group_rows, grown), _LARGEST_ROW_GROUP)

    def _seal(self, facts: Mapping[str, Any] | None = None) -> None:
        """Append the pending rows and a footer behind them, or leave the file as it was."""
        assert self._footer is not None
        footer = self._footer.copy()
        data = b""
        if self._pending_rows:
            pa = pyarrow_module()
            data, rows_footer = split_file(
                encode_rows(pa.Table.from_batches(self._pending), self._compression)
            )
            footer.append(rows_footer, self._end - len(MAGIC))
        for key, value in (facts or {}).items():
            footer.set_metadata(f"penstock.{key}", json.dumps(value, ensure_ascii=False))
        data += footer.encode()
        append_durably(self._descriptor, self._end, data)
        self._end += len(data)
        self._footer = footer
        self._pending.clear()
        self._pending_rows = 0

    def _restart_journal(self) -> None:
        assert self._schema is not None and self._footer is not None
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._journal = Journal(
            journal_path(self.paths[-1]),
            arrow_schema(self._schema),
            sealed_bytes=self._end,
            sealed_rows=self._footer.rows,
        )

    def _finish_part(self, facts: Mapping[str, Any]) -> None:
        path = self.paths[-1]
        journal = journal_path(path)
        try:
            self._seal(facts)
        except OSError as error:
            kept = self._journal.rows if self._journal is not None else 0
            failure = explain("finish", path, error)
            lost = self._pending_rows - kept
            raise SinkWriteError(
                f"{failure}; {kept} samples wait in {journal}"
                f"{f' and the last {lost} are lost' if lost else ''}: "
                f"run penstock record --recover {path} once there is room"
            ) from error
        with explained("remove", journal):
            journal.unlink(missing_ok=True)
        with explained("finish", path):
            sync_directory(path)

    def _release(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        os.close(self._descriptor)
        self._descriptor = -1


def append_durably(descriptor: int, end: int, data: bytes) -> None:
    """Write ``data`` behind ``end`` and force it to the disk, or cut the file back to ``end``."""
    try:
        os.lseek(descriptor, end, os.SEEK_SET)
        write_fully(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, end)
        raise


def encode_rows(table: Any, compression: str) -> bytes:
    """A table as a whole Parquet file in memory, one row group a million rows.

    Times are delta coded: differences of a steady cadence are small numbers, 2.5 bytes a stamp
    where a dictionary takes 5. Everything else is dictionary coded: instruments send few digits,
    so their values repeat, and pyarrow falls back to plain values where they do not.
    """
    pa, parquet = pyarrow_module(), pyarrow_module("pyarrow.parquet")
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(
        sink,
        table.schema,
        compression=compression,
        use_dictionary=[name for name in table.column_names if name not in _DELTA_CODED],
        column_encoding=dict.fromkeys(_DELTA_CODED, "DELTA_BINARY_PACKED"),
    ) as writer:
        if table.num_rows:  # an empty table would be written as a row group without rows
            writer.write_table(
                table.unify_dictionaries().combine_chunks(), row_group_size=_LARGEST_ROW_GROUP
            )
    data: bytes = sink.getvalue().to_pybytes()
    return data
