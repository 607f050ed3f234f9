"""The rows of a table as the bytes that are digested.

For XXH3, the bytes that ``plain_rows`` of the extension makes, which take a fifth of the time of
text. For BLAKE2b, CSV text as :class:`~penstock.record.CsvSink` writes it, with an empty text as
``""``: so earlier versions did. In both NaN is null and minus zero is zero, so that a row is the
same before it went into SQLite and when it comes out.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from penstock._record import csv_rows, plain_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import FloatColumn, NumberColumn, TextColumn, new_column
from penstock.record._columns.row_columns import row_columns
from penstock.record._files.row_text import quoted
from penstock.record._seals.digests import FAST, Digest
from penstock.record.schema import RecordSchema

__all__ = ["add_rows", "batch_of_rows"]

# So many fit in the processor's cache.
_ROWS_AT_A_TIME = 512

_MINUS_ZERO = array("d", [-0.0]).tobytes()
_FIXED_TEXTS = ("device", "unit_id", "status", "error")


def add_rows(digest: Digest, name: str, batch: SampleBatch) -> int:
    """Add the rows of a batch to a digest of the name ``name``; how many bytes they were."""
    if name != FAST:
        text = _text(_as_stored(batch) if _has_other_forms(batch) else batch)
        digest.update(text)
        return len(text)
    columns = row_columns(batch, batch.schema.names, str)
    size = 0
    for start in range(0, len(batch), _ROWS_AT_A_TIME):
        rows = plain_rows(columns, start, min(start + _ROWS_AT_A_TIME, len(batch)))
        digest.update(rows)
        size += len(rows)
    return size


def batch_of_rows(rows: Sequence[Sequence[Any]], schema: RecordSchema) -> SampleBatch:
    """Rows of a database as a batch of the columns ``schema.names``.

    TypeError, ValueError or OverflowError if a value is not of its column's kind.
    """
    columns: dict[str, Any] = {}
    cells = zip(*rows, strict=True) if rows else iter([[]] * len(schema.names))
    for name, values in zip(schema.names, cells, strict=True):
        kind = schema.kind_of(name)
        if kind is None and name not in _FIXED_TEXTS:
            columns[name] = array("d" if name == "latency_s" else "q", values)
            continue
        column = TextColumn() if kind is None else new_column(kind)
        if isinstance(column, TextColumn):
            if not all(value is None or isinstance(value, str) for value in values):
                raise TypeError(f"{name} has a value that is no text")
            column.extend(values)
        else:
            column.data = array(column.typecode, [0 if v is None else v for v in values])
            column.valid = bytearray(v is not None for v in values)
        columns[name] = column
    return SampleBatch(schema, columns, len(rows))


def _text(batch: SampleBatch) -> bytes:
    return csv_rows(row_columns(batch, batch.schema.names, _exactly), 0, len(batch))


def _has_other_forms(batch: SampleBatch) -> bool:
    """Whether a float may be NaN or minus zero, which are rare. A wrong yes costs only time."""
    for name in batch.schema.names:
        column = batch.raw(name)
        data = column.data if isinstance(column, FloatColumn) else column
        if not isinstance(data, array) or data.typecode != "d":
            continue
        # The sum of both infinities is NaN too.
        if math.isnan(sum(data)) or _MINUS_ZERO in data.tobytes():
            return True
    return False


def _exactly(text: str) -> str:
    return quoted(text) if text else '""'


def _as_stored(batch: SampleBatch) -> SampleBatch:
    columns: dict[str, Any] = {}
    for name in batch.schema.names:
        column = batch.raw(name)
        if isinstance(column, FloatColumn):
            stored: NumberColumn = FloatColumn()
            stored.data = array("d", [value + 0.0 for value in column.data])
            stored.valid = bytearray(
                bool(valid) and not math.isnan(value)
                for value, valid in zip(column.data, column.valid, strict=True)
            )
            columns[name] = stored
        elif isinstance(column, array) and column.typecode == "d":
            columns[name] = array("d", [value + 0.0 for value in column])
        else:
            columns[name] = column
    return SampleBatch(batch.schema, columns, len(batch))
