"""The rows of a batch by Python's own csv, json and struct: the reference of the native writers."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from penstock.record import SampleBatch
from penstock.record._columns.columns import BoolColumn, NumberColumn, TextColumn, TimestampColumn
from penstock.record.schema import TIME_COLUMNS


def plain_csv(batch: SampleBatch) -> bytes:
    text = io.StringIO()
    columns = [list(map(_csv_cell, values_of(batch, name))) for name in batch.schema.names]
    csv.writer(text, lineterminator="\r\n").writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def plain_json(batch: SampleBatch) -> bytes:
    names = batch.schema.names
    columns = [[_json_cell(v) for v in values_of(batch, name)] for name in names]
    lines = [
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
        for row in zip(*columns, strict=True)
    ]
    return "".join(line + "\n" for line in lines).encode()


def plain_copy(batch: SampleBatch) -> bytes:
    columns = [list(map(_copy_cell, _raw_values(batch, name))) for name in batch.schema.names]
    head = struct.pack("!h", len(columns))
    return b"".join(head + b"".join(row) for row in zip(*columns, strict=True))


def values_of(batch: SampleBatch, name: str) -> list[Any]:
    """A column with its times as texts."""
    column = batch.raw(name)
    if isinstance(column, TimestampColumn):
        return [
            text if ok else None
            for text, ok in zip(time_texts(column.data), column.valid, strict=True)
        ]
    if isinstance(column, array) and name in TIME_COLUMNS:
        return time_texts(column)
    return batch.column(name)


def time_texts(stamps: Iterable[int]) -> list[str]:
    texts = []
    for stamp in stamps:
        second, nanoseconds = divmod(stamp, 1_000_000_000)
        moment = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        texts.append(f"{moment}.{nanoseconds:09d}Z")
    return texts


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return value


def _json_cell(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _raw_values(batch: SampleBatch, name: str) -> list[Any]:
    """A column with its times as a pair that only they have."""
    column = batch.raw(name)
    if isinstance(column, TextColumn | BoolColumn):
        return batch.column(name)
    is_time = isinstance(column, TimestampColumn) or name in TIME_COLUMNS
    data = column.data if isinstance(column, NumberColumn) else column
    valid = column.valid if isinstance(column, NumberColumn) else bytearray(b"\1" * len(data))
    return [
        None if not ok else ("time", value) if is_time else value
        for value, ok in zip(data, valid, strict=True)
    ]


def _copy_cell(value: Any) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    if isinstance(value, bool):
        return struct.pack("!i?", 1, value)
    if isinstance(value, float):
        return struct.pack("!id", 8, value)
    if isinstance(value, int):
        return struct.pack("!iq", 8, value)
    if isinstance(value, tuple):
        return struct.pack("!iq", 8, value[1] // 1000 - 946_684_800_000_000)
    text = value.replace("\0", "\\0").encode()
    return struct.pack("!i", len(text)) + text
