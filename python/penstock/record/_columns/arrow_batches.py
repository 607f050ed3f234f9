"""Arrow record batches to the columns of a recording."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Any

from penstock.record._columns.columns import NumberColumn, TextColumn, new_column
from penstock.record._source import FieldKind
from penstock.record.arrow import METADATA_KEY, pyarrow_module
from penstock.record.errors import SinkSchemaError
from penstock.record.schema import LEADING_COLUMNS, TIME_COLUMNS, TRAILING_COLUMNS, RecordSchema
from penstock.record.schema import Field as RecordField

__all__ = ["columns_from_arrow", "schema_from_arrow"]

_FIXED = frozenset(LEADING_COLUMNS + TRAILING_COLUMNS)
_REQUIRED = ("device", "t_utc")


def schema_from_arrow(schema: Any) -> RecordSchema:
    """The fields, units and metadata of an Arrow schema."""
    fields = tuple(_field_from_arrow(field) for field in schema if field.name not in _FIXED)
    metadata = (schema.metadata or {}).get(METADATA_KEY, b"{}").decode()
    return RecordSchema(fields, metadata)


def columns_from_arrow(source: Any) -> tuple[RecordSchema, dict[str, Any], int]:
    """Return the schema, the columns and the number of rows for :meth:`SampleBatch.from_arrow`."""
    missing = [name for name in _REQUIRED if name not in source.schema.names]
    if missing:
        raise SinkSchemaError(
            f"the Arrow batch has no column {' and no column '.join(map(repr, missing))}: "
            f"add it, or record the batch without Penstock"
        )
    schema = schema_from_arrow(source.schema)
    rows = source.num_rows
    columns: dict[str, Any] = {}
    for name in schema.names:
        if name in source.schema.names:
            columns[name] = _column(source.column(name), name, schema.kind_of(name))
    times = columns["t_utc"]
    absent: dict[str, Callable[[], Any]] = {
        "unit_id": lambda: TextColumn(rows),
        "t_mono_ns": lambda: array("q", bytes(8 * rows)),
        "requested_at": lambda: times,
        "received_at": lambda: times,
        "latency_s": lambda: array("d", bytes(8 * rows)),
        "status": lambda: TextColumn(rows),
        "error": lambda: TextColumn(rows),
    }
    for name, make in absent.items():
        columns.setdefault(name, make())
    return schema, columns, rows


def _field_from_arrow(field: Any) -> RecordField:
    pa = pyarrow_module()
    kind = field.type
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    found: FieldKind
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = "float"
    elif pa.types.is_boolean(kind):
        found = "bool"
    elif pa.types.is_integer(kind):
        found = "int"
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        found = "timestamp"
    elif pa.types.is_string(text) or pa.types.is_large_string(text) or pa.types.is_null(kind):
        found = "text"
    else:
        raise SinkSchemaError(
            f"the Arrow column {field.name!r} is {kind}: "
            f"a recording holds numbers, truth values, texts and time stamps"
        )
    metadata = field.metadata or {}
    unit = metadata.get(b"unit")
    units = json.loads(metadata.get(b"units", b"{}"))
    return RecordField(
        field.name, found, unit.decode() if unit is not None else None, tuple(units.items())
    )


def _column(data: Any, name: str, kind: FieldKind | None) -> Any:
    pa = pyarrow_module()
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
        if isinstance(data, pa.ChunkedArray):  # no chunks at all
            data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if name in TIME_COLUMNS or kind == "timestamp":
        data = data.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    elif kind == "float" or name == "latency_s":
        data = data.cast(pa.float64())
    elif kind == "int" or name == "t_mono_ns":
        data = data.cast(pa.int64())
    elif kind == "bool":
        data = data.cast(pa.int8())
    else:
        return _text_column(pa, data)
    if kind is None:
        if data.null_count:
            raise SinkSchemaError(f"the Arrow column {name!r} has nulls: every row needs a value")
        return _numbers(pa, data, "d" if pa.types.is_floating(data.type) else "q")
    column = new_column(kind)
    assert isinstance(column, NumberColumn)
    column.data = _numbers(pa, data, column.typecode)
    column.valid = bytearray(b"\1") * len(data)
    if data.null_count:
        valid = data.is_valid().cast(pa.uint8())
        column.valid = bytearray(_numbers(pa, valid, "B").tobytes())
    return column


def _numbers(pa: Any, data: Any, typecode: str) -> Any:
    numbers = array(typecode)
    if len(data):
        size = numbers.itemsize
        view = memoryview(data.buffers()[1])
        numbers.frombytes(view[data.offset * size : (data.offset + len(data)) * size])
    return numbers


def _text_column(pa: Any, data: Any) -> TextColumn:
    column = TextColumn()
    if pa.types.is_null(data.type):
        return TextColumn(len(data))
    if not pa.types.is_dictionary(data.type):
        data = data.cast(pa.string()).dictionary_encode()
    table = data.dictionary.to_pylist()
    if None in table or len(set(table)) < len(table):
        column.extend(data.to_pylist())
        return column
    column.extend(table)
    column.codes = _numbers(pa, data.indices.cast(pa.int32()).fill_null(-1), "i")
    column.has_null = bool(data.null_count)
    return column
