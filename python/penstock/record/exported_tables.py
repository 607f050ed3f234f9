"""Arrow tables as files in the formats of the sinks, for exports of a recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.record._columns.arrow_batches import schema_from_arrow
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.describe_columns import describe_columns
from penstock.record._sinks.csv_text import csv_bytes, csv_header
from penstock.record._sinks.files import replace_file
from penstock.record._sinks.json_text import json_bytes
from penstock.record._sinks.line_repair import sidecar_path
from penstock.record.arrow import pyarrow_module

__all__ = ["TABLE_WRITERS", "describe_table", "described_in"]

_ROWS_A_WRITE = 65_536
_TEXTS = (".csv", ".jsonl")  # formats that cannot hold the units themselves


def described_in(path: Path) -> Path:
    """The file that holds the units and metadata of ``path``: itself, or the one beside a text."""
    return sidecar_path(path) if path.suffix in _TEXTS else path


def describe_table(path: Path, table: Any, facts: Mapping[str, Any]) -> None:
    """Put units, metadata and ``facts`` beside a text, as its sink does; else do nothing.

    Raises:
        RecordError: if a column is of a kind that no recording has.
        OSError: if the disk refuses.
    """
    if path.suffix not in _TEXTS:
        return
    schema = schema_from_arrow(table.schema)
    document = {
        "format": f"penstock {path.suffix[1:]} 1",
        "columns": describe_columns(schema),
        "recording": json.loads(schema.metadata),
        "rows": len(table),
        **facts,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    replace_file(described_in(path), text.encode())


def _write_csv(table: Any, file: Any) -> None:
    file.write(csv_header(schema_from_arrow(table.schema).names))
    for batch in _batches(table):
        file.write(csv_bytes(batch, 0, len(batch)))


def _write_lines(table: Any, file: Any) -> None:
    for batch in _batches(table):
        file.write(json_bytes(batch, 0, len(batch)))


def _batches(table: Any) -> Iterator[SampleBatch]:
    for batch in table.to_batches(max_chunksize=_ROWS_A_WRITE):
        yield SampleBatch.from_arrow(batch)


def _write_parquet(table: Any, file: Any) -> None:
    pyarrow_module("pyarrow.parquet").write_table(table, file, compression="zstd")


def _write_arrow(table: Any, file: Any) -> None:
    with pyarrow_module("pyarrow.ipc").new_file(file, table.schema) as writer:
        writer.write_table(table)


TABLE_WRITERS: Mapping[str, Callable[[Any, Any], None]] = MappingProxyType(
    {
        ".csv": _write_csv,
        ".parquet": _write_parquet,
        ".arrow": _write_arrow,
        ".jsonl": _write_lines,
    }
)
"""By suffix: writes a table to an open binary file. RecordError for a column of no such kind."""
