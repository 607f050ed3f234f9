"""Recording into CSV: lines that are complete on disk after every flush."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .arrow import has_pyarrow
from .batch import SampleBatch
from .csv_text import csv_bytes, csv_header, last_whole_line
from .errors import SinkSchemaError, SinkWriteError
from .files import (
    create_file,
    explain,
    explained,
    is_regular,
    part_path,
    replace_file,
    sync_directory,
    write_fully,
)
from .schema import RecordSchema
from .sink import PathSink

__all__ = ["CsvFile", "CsvSink", "sidecar_path"]

# One write call holds at most this many rows: text beyond 2 GiB does not fit Arrow's offsets.
_ROWS_A_WRITE = 100_000
_FIXED_UNITS = {"t_mono_ns": "ns", "latency_s": "s"}


def sidecar_path(path: Path) -> Path:
    """Where the metadata of a CSV file lie: ``run.csv`` -> ``run.csv.meta.json``."""
    return path.with_name(path.name + ".meta.json")


class CsvSink(PathSink):
    """Writes ``path`` as CSV (RFC 4180, UTF-8, CRLF) and ``path.meta.json`` beside it.

    ``open`` creates the file and raises SinkExistsError if it is there already, unless
    ``overwrite``; then the old content goes when the first batch comes, so a run that never gets
    that far destroys nothing. Every batch is one write call of complete lines. A kill in the
    middle of that call can leave a torn last line, which :func:`penstock.record.recover` cuts off;
    a full disk is cut back to the last complete line at once.

    ``fsync="batch"`` forces every batch to the disk (survives a power cut, costs milliseconds a
    batch); ``"close"``, the default, leaves that to the kernel until the file is finished, which
    survives anything but the machine itself stopping.

    A batch with a field that the file has no column for begins a new file, ``run.part2.csv``.
    ``paths`` lists the files written. Works without pyarrow.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        metadata: bool = True,
        fsync: Literal["close", "batch"] = "close",
    ) -> None:
        super().__init__(
            CsvFile(
                Path(path), overwrite=overwrite, metadata=metadata, fsync_batches=fsync == "batch"
            )
        )


class CsvFile:
    """The synchronous half of :class:`CsvSink`."""

    def __init__(self, path: Path, *, overwrite: bool, metadata: bool, fsync_batches: bool) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._overwrite = overwrite
        self._metadata = metadata
        self._fsync_batches = fsync_batches
        self._descriptor = -1
        self._regular = True
        self._end = 0
        self._rows = 0
        self._failed = False
        self._schema: RecordSchema | None = None
        self._created: list[Path] = []

    def open(self) -> None:
        # Imported now where it is there at all: half a second of import in the middle of a
        # recording would hold up the polls, whatever thread it runs in.
        has_pyarrow()
        self._create(self.path)

    def write(self, batch: SampleBatch) -> None:
        if self._failed or self._descriptor < 0:
            raise SinkWriteError(f"{self.path} takes no more samples after an earlier error")
        if self._schema is None:
            self._begin(batch.schema)
        elif not self._schema.covers(batch.schema.fields):
            self._begin_part(batch.schema)
        assert self._schema is not None
        fitted = batch.fitted(self._schema)
        if len(fitted) <= _ROWS_A_WRITE:
            self._append(csv_bytes(fitted), len(fitted))
            return
        for start in range(0, len(fitted), _ROWS_A_WRITE):
            part = fitted.slice(start, start + _ROWS_A_WRITE)
            self._append(csv_bytes(part), len(part))

    def close(self, facts: Mapping[str, Any]) -> None:
        if self._descriptor < 0:
            return
        if self._schema is None:
            self._discard()
            return
        try:
            self._finish_part(facts)
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _create(self, path: Path) -> None:
        with explained("create", path):
            existed = path.exists()
        self._descriptor = create_file(path, overwrite=self._overwrite)
        self._regular = is_regular(self._descriptor)
        self._metadata = self._metadata and self._regular
        self._created = [] if existed else [path]
        sidecar = sidecar_path(path)
        if self._metadata and not self._overwrite:
            try:
                os.close(create_file(sidecar, overwrite=False))
            except BaseException:
                self._discard()
                raise
            self._created.append(sidecar)
        self.paths.append(path)
        self._end = 0
        self._rows = 0

    def _discard(self) -> None:
        """Nothing was recorded: take away what ``open`` put there."""
        os.close(self._descriptor)
        self._descriptor = -1
        for path in self._created:
            with explained("remove", path):
                path.unlink(missing_ok=True)
        self.paths.clear()

    def _begin(self, schema: RecordSchema) -> None:
        path = self.paths[-1]
        if self._regular:
            with explained("empty", path):
                os.ftruncate(self._descriptor, 0)
        self._schema = schema
        self._write_metadata({})
        self._append(csv_header(schema.names), 0)

    def _begin_part(self, schema: RecordSchema) -> None:
        assert self._schema is not None
        for field in schema.fields:
            known = self._schema.kind_of(field.name)
            if known is not None and known != field.kind:
                raise SinkSchemaError(
                    f"field {field.name!r} was {known} so far and is {field.kind} in this batch: "
                    f"record it to another file than {self.path}"
                )
            if known is None:
                self._schema = self._schema.with_field(field)
        self._finish_part({"continued_in": part_path(self.path, len(self.paths) + 1).name})
        os.close(self._descriptor)
        self._descriptor = -1
        widened = self._schema
        self._create(part_path(self.path, len(self.paths) + 1))
        self._begin(widened)

    def _finish_part(self, facts: Mapping[str, Any]) -> None:
        path = self.paths[-1]
        if self._regular:
            with explained("finish", path):
                os.fsync(self._descriptor)
                sync_directory(path)
        self._write_metadata(facts)

    def _write_metadata(self, facts: Mapping[str, Any]) -> None:
        if not self._metadata:
            return
        assert self._schema is not None
        document = {
            "format": "penstock csv 1",
            "columns": [self._described(name) for name in self._schema.names],
            "recording": json.loads(self._schema.metadata),
            "rows": self._rows,
            **facts,
        }
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        replace_file(sidecar_path(self.paths[-1]), text.encode())

    def _described(self, name: str) -> dict[str, Any]:
        """A column's name and unit; each device's unit where they differ."""
        assert self._schema is not None
        if name in _FIXED_UNITS:
            return {"name": name, "unit": _FIXED_UNITS[name]}
        field = next((field for field in self._schema.fields if field.name == name), None)
        described: dict[str, Any] = {"name": name, "unit": None if field is None else field.unit}
        if field is not None and field.units:
            described["units"] = dict(field.units)
        return described

    def _append(self, data: bytes | memoryview, rows: int) -> None:
        path = self.paths[-1]
        if not len(data):
            return
        try:
            write_fully(self._descriptor, data)
            if self._fsync_batches and self._regular:
                os.fdatasync(self._descriptor)
        except OSError as error:
            self._failed = True
            kept = self._cut_torn_line()
            failure = explain("write", path, error)
            raise SinkWriteError(f"{failure}; {kept}") from error
        self._end += len(data)
        self._rows += rows

    def _cut_torn_line(self) -> str:
        """Cut back to whole lines after a failed write; what is left, in words."""
        if not self._regular:
            return "what was written before is unchanged"
        path = self.paths[-1]
        with explained("cut", path), open(path, "rb") as file:
            file.seek(self._end)
            length, rows = last_whole_line(file)
            self._end += length
            self._rows += rows
            os.ftruncate(self._descriptor, self._end)
        return f"the {self._rows} samples written so far are kept as whole lines"
