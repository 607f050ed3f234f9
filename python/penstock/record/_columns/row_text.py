"""Rows as text: the columns of a batch as the native row writers take them, CSV and JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock._record import csv_rows, json_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import (
    BoolColumn,
    FloatColumn,
    IntColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
)
from penstock.record.schema import TIME_COLUMNS, RecordSchema

if TYPE_CHECKING:
    from penstock._record import Column

_LETTERS: dict[type[NumberColumn], str] = {
    FloatColumn: "f",
    IntColumn: "i",
    BoolColumn: "b",
    TimestampColumn: "t",
}


def row_columns(
    batch: SampleBatch, names: Iterable[str], text: Callable[[str], str]
) -> list[Column]:
    """The columns ``names``, whose buffers are lent.

    Args:
        batch: the rows.
        names: of columns that the batch has.
        text: makes the format's text of a text column's value.
    """
    columns: list[Column] = []
    for name in names:
        column = batch.raw(name)
        if isinstance(column, TextColumn):
            texts = [text(value).encode() for value in column.table]
            columns.append(("s", column.codes, None, texts))
        elif isinstance(column, NumberColumn):
            valid = column.valid if 0 in column.valid else None
            columns.append((_LETTERS[type(column)], column.data, valid, None))
        elif name in TIME_COLUMNS:
            columns.append(("t", column, None, None))
        else:
            columns.append(("f" if column.typecode == "d" else "i", column, None, None))
    return columns


# The columns of a recording as JSON types, for formats without a schema of their own.

_FIXED_UNITS = {"t_mono_ns": "ns", "latency_s": "s"}


def describe_columns(schema: RecordSchema) -> list[dict[str, Any]]:
    """Each column's name and unit, a field's kind, and each device's unit where they differ."""
    fields = {field.name: field for field in schema.fields}
    described = []
    for name in schema.names:
        field = fields.get(name)
        entry: dict[str, Any] = {"name": name, "unit": _FIXED_UNITS.get(name)}
        if field is not None:
            entry = {"name": name, "unit": field.unit, "kind": field.kind}
            if field.units:
                entry["units"] = dict(field.units)
        described.append(entry)
    return described


def field_from_description(entry: dict[str, Any]) -> Any:
    """The field of an entry of :func:`describe_columns`; None for a fixed column."""
    from penstock.record.schema import Field

    if "kind" not in entry:
        return None
    return Field(entry["name"], entry["kind"], entry["unit"], tuple(entry.get("units", {}).items()))


# Batches as CSV text (RFC 4180).
#
# UTF-8, ``\r\n`` after every row, fields quoted only when they hold a comma, a quote or a line
# break; nulls and empty texts are empty. Times are ISO 8601 with nine decimals and ``Z``; floats
# the shortest decimal that reads back as the same float64, in the notation of ``repr`` without a
# ``.0`` at the end; truth values ``true`` and ``false``.
#
# Rejected: ``pyarrow.csv.write_csv``, which writes a space between date and time and takes 2.5 us
# for a row's three time stamps; and joining columns of text that Arrow's kernels made, which takes
# four times as long as the native writer, and for small batches longer than Python's ``csv``.

_NEEDS_QUOTES = re.compile(r'[",\r\n]')


def csv_header(names: Sequence[str]) -> bytes:
    """The header line."""
    return (",".join(map(quoted, names)) + "\r\n").encode()


def csv_bytes(batch: SampleBatch, start: int, stop: int) -> bytes:
    """The rows ``start`` to ``stop`` of a batch, each ended by a line break."""
    return csv_rows(row_columns(batch, batch.schema.names, quoted), start, stop)


def quoted(text: str) -> str:
    """A text as a field."""
    if _NEEDS_QUOTES.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


# Batches as JSON Lines: UTF-8, one object and ``\n`` a row, with every column.
#
# The bytes are those of ``json.dumps(row, ensure_ascii=False)``; times are texts as in
# CSV. JSON has neither NaN nor infinities, so these are null.


def json_line(content: object) -> bytes:
    """One object as a line. A value without a JSON type becomes text."""
    return json.dumps(content, ensure_ascii=False, default=str).encode() + b"\n"


def json_bytes(batch: SampleBatch, start: int, stop: int) -> bytes:
    """The rows ``start`` to ``stop`` of a batch, each ended by a line break."""
    names = batch.schema.names
    return json_rows(row_columns(batch, names, _json_text), _labels(names), start, stop)


@lru_cache(maxsize=64)
def _labels(names: Sequence[str]) -> tuple[bytes, ...]:
    """The text before each value."""
    return tuple(
        f"{', ' if number else '{'}{_json_text(name)}: ".encode()
        for number, name in enumerate(names)
    )


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
