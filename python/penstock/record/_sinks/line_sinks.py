"""Recording into CSV and JSON Lines."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock._renamed import renamed
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.row_text import (
    csv_bytes,
    csv_header,
    describe_columns,
    json_bytes,
    json_line,
)
from penstock.record._files.files import create_file, replace_file
from penstock.record._files.line_ends import HEAD_KEY, described_beside, fields_of, sidecar_path
from penstock.record._seals.digests import SigningKey
from penstock.record._sinks.line_file import LineFile, Rotation
from penstock.record.schema import RecordSchema
from penstock.record.sink import LossWindow, PathSink


class CsvSink(PathSink):
    """Writes CSV (RFC 4180, UTF-8, CRLF), and the metadata into ``run.csv.meta.json``.

    SIGKILL during a write can leave a torn last line, which :func:`penstock.record.recover` cuts
    off. If the disk is full, the sink cuts the file back to the last complete line at once. A batch
    with a new field, another unit or other metadata begins a new file, ``run.part2.csv``. ``paths``
    lists the files. Needs no package but Penstock.

    Args:
        path: the file.
        overwrite: replace an existing file when the first batch comes.
        append: continue an existing file. A torn end is cut off and kept beside the file, see
            ``cuts``. Without either, ``open`` raises SinkExistsError.
        force: with ``append``, cut off even an end that is longer than SIGKILL can tear. Otherwise
            ``open`` raises RecoveryError, and the file is unchanged.
        metadata: write ``run.csv.meta.json``.
        rotate_bytes: the size of a part in bytes at which a new part begins.
        rotate_interval: the age of a part in seconds at which a new part begins.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.
        seals: write ``run.csv.seals``, with which ``penstock verify`` checks that nothing has
            changed since.
        sign: the key that signs the seals.
    """

    @renamed(rotate_seconds="rotate_interval", loss_seconds="loss_interval")
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        metadata: bool = True,
        rotate_bytes: int | None = None,
        rotate_interval: float | None = None,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        super().__init__(
            CsvFile(
                Path(path),
                overwrite=overwrite,
                append=append,
                force=force,
                rotation=Rotation(rotate_bytes, rotate_interval),
                metadata=metadata,
                seals=seals,
                sign=sign,
            ),
            LossWindow(loss_interval, loss_rows),
        )


class CsvFile(LineFile):
    """The synchronous half of :class:`CsvSink`."""

    _quoted = True

    def _head(self, schema: RecordSchema) -> bytes:
        return csv_header(schema.names)

    def _lines(self, batch: SampleBatch, start: int, stop: int) -> bytes:
        return csv_bytes(batch, start, stop)

    def _has_head(self, path: Path, schema: RecordSchema) -> bool:
        with open(path, "rb") as file:
            if tuple(fields_of(file.readline())) != schema.names:
                return False
        described = described_beside(path)
        if described is None:
            return not self._metadata
        return bool(
            described.get("columns") == describe_columns(schema)
            and described.get("recording") == json.loads(schema.metadata)
        )

    def _reserve(self, path: Path) -> list[Path]:
        if not self._metadata or self._overwrite:
            return []
        sidecar = sidecar_path(path)
        # Left by a run whose disk refused everything after it: `path` is new, and this has nothing.
        abandoned = sidecar.is_file() and not sidecar.stat().st_size
        os.close(create_file(sidecar, overwrite=abandoned))
        return [sidecar]

    def _describe(self, facts: Mapping[str, Any]) -> None:
        if not self._metadata or not self._regular:
            return
        path = self.paths[-1]
        if self._schema is not None:
            document = {
                "format": "penstock csv 1",
                "columns": describe_columns(self._schema),
                "recording": json.loads(self._schema.metadata),
            }
        elif (earlier := described_beside(path)) is not None:
            document = earlier
        else:
            return
        document |= {"rows": self._rows, **facts}
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        replace_file(sidecar_path(path), text.encode())


# Recording into JSON Lines.


class JsonlSink(PathSink):
    """Writes JSON Lines: one object for each row.

    The first line is ``{"penstock": {...}}`` with columns, units and metadata; a complete file
    ends with a second ``penstock`` line. Otherwise it works like :class:`~penstock.record.CsvSink`.

    Args:
        path: the file.
        overwrite: replace an existing file when the first batch comes.
        append: continue an existing file; see :class:`~penstock.record.CsvSink`.
        force: with ``append``, cut off even an end that is longer than SIGKILL can tear.
        metadata: write the ``penstock`` lines.
        rotate_bytes: the size of a part in bytes at which a new part begins.
        rotate_interval: the age of a part in seconds at which a new part begins.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.
        seals: write ``run.jsonl.seals``, with which ``penstock verify`` checks that nothing has
            changed since.
        sign: the key that signs the seals.
    """

    @renamed(rotate_seconds="rotate_interval", loss_seconds="loss_interval")
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        metadata: bool = True,
        rotate_bytes: int | None = None,
        rotate_interval: float | None = None,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        super().__init__(
            JsonlFile(
                Path(path),
                overwrite=overwrite,
                append=append,
                force=force,
                rotation=Rotation(rotate_bytes, rotate_interval),
                metadata=metadata,
                seals=seals,
                sign=sign,
            ),
            LossWindow(loss_interval, loss_rows),
        )


class JsonlFile(LineFile):
    """The synchronous half of :class:`JsonlSink`."""

    _quoted = False

    def _head(self, schema: RecordSchema) -> bytes:
        if not self._metadata:
            return b""
        head = {
            "format": "penstock jsonl 1",
            "columns": describe_columns(schema),
            "recording": json.loads(schema.metadata),
        }
        return json_line({HEAD_KEY: head})

    def _lines(self, batch: SampleBatch, start: int, stop: int) -> bytes:
        return json_bytes(batch, start, stop)

    def _has_head(self, path: Path, schema: RecordSchema) -> bool:
        head = self._head(schema)
        with open(path, "rb") as file:
            return file.readline().rstrip() == head.rstrip()

    def _describe(self, facts: Mapping[str, Any]) -> None:
        if facts and self._metadata and not self._failed:
            self._put(json_line({HEAD_KEY: {"rows": self._rows, **facts}}), 0)
