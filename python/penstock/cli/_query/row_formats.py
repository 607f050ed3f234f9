"""The rows of a query as a table for people, CSV, JSON, JSON Lines and Parquet."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO

from penstock.cli._errors import harmless
from penstock.record.arrow import is_number, iso_times, pyarrow_module

__all__ = ["WRITERS"]

_MOST_ROWS = 200
_WIDEST = 60


def _write_table(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    """The first rows, aligned, numbers to the right; then how many there are."""
    rows: list[list[str]] = []
    count = 0
    for batch in batches:
        count += len(batch)
        if len(rows) < _MOST_ROWS:
            shown = batch.slice(0, _MOST_ROWS - len(rows))
            rows += [[_cell(value) for value in row] for row in _values(shown)]
    names = [_cell(name) for name in schema.names]
    right = [_is_number(field.type) for field in schema]
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
    for line in (names, ["-" * width for width in widths], *rows):
        cells = zip(line, widths, right, strict=True)
        file.write(("  ".join(_padded(*cell) for cell in cells).rstrip() + "\n").encode())
    if count > len(rows):
        file.write(f"... {count - len(rows)} further rows; --format csv has them all\n".encode())
    file.write(f"({count} row{'s' * (count != 1)})\n".encode())


def _write_csv(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    r"""RFC 4180 with ``\n``; null is an empty field, an empty text ``""``."""
    csv = pyarrow_module("pyarrow.csv")
    names = [_quoted(name) for name in schema.names]
    file.write((",".join(names) + "\n").encode())
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        csv.write_csv(_as_texts(batch), file, options)


def _write_json(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    """One array of objects, one a line."""
    between = b"[\n"
    for line in _objects(schema, batches):
        file.write(between + line)
        between = b",\n"
    file.write(b"[]\n" if between == b"[\n" else b"\n]\n")


def _write_lines(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    for line in _objects(schema, batches):
        file.write(line + b"\n")


def _write_parquet(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    parquet = pyarrow_module("pyarrow.parquet")
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


WRITERS: Mapping[str, Callable[[Any, Iterator[Any], BinaryIO], None]] = MappingProxyType(
    {
        "table": _write_table,
        "csv": _write_csv,
        "json": _write_json,
        "jsonl": _write_lines,
        "parquet": _write_parquet,
    }
)
"""By format: writes the batches of a schema to an open binary file."""


def _objects(schema: Any, batches: Iterator[Any]) -> Iterator[bytes]:
    names = schema.names
    for batch in batches:
        for row in _values(batch):
            # Not a dictionary: a query may give two columns one name, and JSON allows that.
            parts = [
                f"{_json(name)}: {_json(value)}" for name, value in zip(names, row, strict=True)
            ]
            yield f"{{{', '.join(parts)}}}".encode()


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """``value`` with null for what JSON has no number for, as in the recorder's own JSON Lines."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _values(batch: Any) -> Iterator[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in _timeless(batch).columns]
    return zip(*columns, strict=True)


def _timeless(batch: Any) -> Any:
    """``batch`` with its time stamps as texts, which keep nanoseconds."""
    pa = pyarrow_module()
    columns = [
        iso_times(column) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _as_texts(batch: Any) -> Any:
    """``batch`` with texts for what CSV has no form of."""
    pa = pyarrow_module()
    columns = []
    for column in _timeless(batch).columns:
        if pa.types.is_nested(column.type):
            texts = [None if each is None else _json(each) for each in column.to_pylist()]
            column = pa.array(texts, pa.string())
        elif pa.types.is_binary(column.type) or pa.types.is_interval(column.type):
            texts = [None if each is None else str(each) for each in column.to_pylist()]
            column = pa.array(texts, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = harmless(value if isinstance(value, str) else str(value))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, width: int, right: bool) -> str:
    blank = " " * (width - _width(text))
    return blank + text if right else text + blank


def _is_number(kind: Any) -> bool:
    return is_number(kind) or bool(pyarrow_module().types.is_decimal(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set('",\r\n') else name
