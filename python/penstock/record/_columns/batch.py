"""A run of samples as columns: a recorder yields batches, and sinks accept them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock._record import attribute_lists, float_cells, utc_stamps, value_lists
from penstock.record._columns.columns import (
    ColumnBuffer,
    FloatColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
    new_column,
)
from penstock.record._sample import Sample, from_utc_ns, to_utc_ns
from penstock.record._source import FieldKind
from penstock.record.arrow import METADATA_KEY, arrow_schema, pyarrow_module
from penstock.record.errors import SinkSchemaError
from penstock.record.schema import (
    LEADING_COLUMNS,
    RECORDER_FIELDS,
    TIME_COLUMNS,
    TRAILING_COLUMNS,
    RecordSchema,
)
from penstock.record.schema import Field as RecordField


class SampleBatch:
    """Rows that no longer change. Any thread may use them.

    ``len(batch)`` rows in the columns ``batch.schema.names``; iterating makes a
    :class:`~penstock.record.Sample` of each row, which is convenient and slow. The buffers are
    shared with Arrow and with other batches, so they must not be written to.
    """

    __slots__ = ("_columns", "_rows", "schema")

    def __init__(
        self,
        schema: RecordSchema,
        columns: dict[str, TextColumn | NumberColumn | array[int] | array[float]],
        rows: int,
    ) -> None:
        self.schema: RecordSchema = schema
        self._columns = columns
        self._rows = rows

    @classmethod
    def from_buffer(cls, buffer: ColumnBuffer) -> SampleBatch:
        """Freeze a buffer. The buffer must not be appended to afterwards."""
        buffer.complete()
        columns: dict[str, Any] = {name: getattr(buffer, name) for name in LEADING_COLUMNS}
        columns.update(buffer.fields)
        columns.update({name: getattr(buffer, name) for name in TRAILING_COLUMNS})
        return cls(buffer.schema, columns, len(buffer))

    @classmethod
    def from_samples(
        cls, samples: Iterable[Sample], schema: RecordSchema | None = None
    ) -> SampleBatch:
        """Columns from sample objects; fields unknown to ``schema`` are added after it."""
        return cls.from_buffer(buffer_samples(list(samples), schema))

    @classmethod
    def from_arrow(cls, record_batch: Any) -> SampleBatch:
        """The rows of a ``pyarrow.RecordBatch`` or ``pyarrow.Table``.

        The columns ``device`` and ``t_utc`` are required. Other missing columns are null or zero;
        missing times are ``t_utc``. Every further column is a field; its unit is taken from the
        Arrow field's metadata.

        Raises:
            SinkSchemaError: a required column is missing, or a column cannot be recorded.
        """
        return cls(*columns_from_arrow(record_batch))

    @classmethod
    def empty(cls, schema: RecordSchema) -> SampleBatch:
        """No rows: tells a sink the columns before the first sample."""
        return cls.from_buffer(ColumnBuffer(schema))

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"<SampleBatch {self._rows} rows, {len(self.schema.names)} columns>"

    def raw(self, name: str) -> TextColumn | NumberColumn | array[int] | array[float]:
        """The storage of a column, for sinks. KeyError when there is no such column."""
        return self._columns[name]

    def column(self, name: str) -> list[Any]:
        """A column as Python values: str, float, int, bool or None.

        Moments are ``int`` nanoseconds since 1970. KeyError when there is no such column.
        """
        column = self._columns[name]
        return column.tolist() if isinstance(column, array) else column.to_list()

    def slice(self, start: int, stop: int | None = None) -> SampleBatch:
        """Rows ``start`` to ``stop``, copied."""
        start, stop, _ = slice(start, stop).indices(self._rows)
        stop = max(start, stop)
        columns = {
            name: column[start:stop] if isinstance(column, array) else column.cut(start, stop)
            for name, column in self._columns.items()
        }
        return SampleBatch(self.schema, columns, stop - start)

    def fitted(self, schema: RecordSchema) -> SampleBatch:
        """The same rows in the columns of ``schema``, which must cover this batch's fields.

        Columns that this batch does not have are null.
        """
        if schema.fields == self.schema.fields:
            return self
        columns = dict(self._columns)
        for field in schema.fields:
            if field.name not in columns:
                columns[field.name] = new_column(field.kind, self._rows)
        return SampleBatch(schema, columns, self._rows)

    def described_by(self, schema: RecordSchema) -> SampleBatch:
        """The same rows under a schema with the same fields, such as one with more metadata."""
        return SampleBatch(schema, self._columns, self._rows)

    def to_arrow(self) -> Any:
        """The batch as a ``pyarrow.RecordBatch``; numbers are lent, not copied.

        Times are ``timestamp[ns, UTC]``; device, unit id, status and text fields are dictionary
        encoded; the schema's metadata carries the recording's. SinkDependencyError without
        pyarrow.
        """
        schema = arrow_schema(self.schema)
        columns = [_column_array(self.raw(field.name), field.type) for field in schema]
        return pyarrow_module().RecordBatch.from_arrays(columns, schema=schema)

    def __iter__(self) -> Iterator[Sample]:
        known = [field.name for field in self.schema.fields]
        names = [name for name in known if name not in RECORDER_FIELDS]
        own = {name: self.column(name) for name in RECORDER_FIELDS if name in known}
        fixed = [self.column(name) for name in (*LEADING_COLUMNS, *TRAILING_COLUMNS)]
        fields = [self._values(name) for name in names]
        for row in range(self._rows):
            device, unit_id, t_utc, t_mono, requested, received, latency, status, error = (
                column[row] for column in fixed
            )
            yield Sample(
                device=device,
                unit_id=unit_id,
                t_utc=from_utc_ns(t_utc),
                t_mono_ns=t_mono,
                requested_at=from_utc_ns(requested),
                received_at=from_utc_ns(received),
                latency_s=latency,
                values={
                    name: column[row]
                    for name, column in zip(names, fields, strict=True)
                    if column[row] is not None
                },
                status=status,
                error=error,
                **{name: column[row] for name, column in own.items()},
            )

    def _values(self, name: str) -> list[Any]:
        """A column as samples have its values."""
        values = self.column(name)
        if not isinstance(self._columns[name], TimestampColumn):
            return values
        return [None if value is None else from_utc_ns(value) for value in values]


def _column_array(column: TextColumn | NumberColumn | array[int] | array[float], kind: Any) -> Any:
    """One column as an Arrow array of type ``kind``."""
    pa = pyarrow_module()
    if isinstance(column, TextColumn):
        encoded = pa.DictionaryArray.from_arrays(
            _codes_array(column), pa.array(column.table, pa.string())
        )
        return encoded if pa.types.is_dictionary(kind) else encoded.dictionary_decode()
    if isinstance(column, NumberColumn):
        # Arrow packs truth values into bits; ours are bytes.
        stored = pa.int8() if pa.types.is_boolean(kind) else kind
        numbers = pa.Array.from_buffers(
            stored, len(column), [_bitmap(pa, column.valid), _lend(pa, column.data)]
        )
        return numbers if stored is kind else numbers.cast(kind)
    return pa.Array.from_buffers(kind, len(column), [None, _lend(pa, column)])


def _codes_array(column: TextColumn) -> Any:
    """The codes of a text column as int32 with nulls for -1."""
    pa = pyarrow_module()
    codes = pa.Array.from_buffers(pa.int32(), len(column.codes), [None, _lend(pa, column.codes)])
    if not column.has_null:
        return codes
    compute = pyarrow_module("pyarrow.compute")
    return compute.if_else(compute.greater_equal(codes, 0), codes, pa.scalar(None, pa.int32()))


def _lend(pa: Any, data: array[int] | array[float]) -> Any:
    # py_buffer holds a reference and a buffer export: the array can then neither be freed nor
    # resized under Arrow. An empty array has no address to lend.
    return pa.py_buffer(data) if len(data) else pa.py_buffer(b"")


def _bitmap(pa: Any, valid: bytearray) -> Any:
    if 0 not in valid:
        return None
    as_bytes = pa.Array.from_buffers(pa.uint8(), len(valid), [None, pa.py_buffer(valid)])
    return as_bytes.cast(pa.bool_()).buffers()[1]


# Sample objects to columns, one column at a time: ten times as fast as row by row.

_ATTRIBUTES = (*LEADING_COLUMNS, *TRAILING_COLUMNS, *RECORDER_FIELDS, "values")


def buffer_samples(samples: Sequence[Sample], schema: RecordSchema | None) -> ColumnBuffer:
    """A buffer with a row for each sample; fields unknown to ``schema`` are added after it."""
    buffer = ColumnBuffer(schema)
    cells = dict(zip(_ATTRIBUTES, attribute_lists(samples, _ATTRIBUTES), strict=True))
    fields = _field_columns(buffer.schema, cells)
    if fields is None and len(samples) > 1:
        # The first sample tells the fields of most: a sink that was not told them begins so.
        first = ColumnBuffer(schema)
        first.append_sample(samples[0])
        fields = _field_columns(first.schema, cells)
        if fields is not None:
            buffer.schema = first.schema
    if fields is None:
        # A field that is new, or a value of another kind than its column: row by row.
        for sample in samples:
            buffer.append_sample(sample)
        return buffer
    buffer.fields = fields
    for name in ("device", "unit_id", "status", "error"):
        getattr(buffer, name).extend(cells[name])
    stamps = utc_stamps(cells["received_at"], to_utc_ns)
    buffer.received_at.frombytes(stamps)
    if cells["t_utc"] != cells["received_at"]:  # the same moment in a recording
        stamps = utc_stamps(cells["t_utc"], to_utc_ns)
    buffer.t_utc.frombytes(stamps)
    buffer.requested_at.frombytes(utc_stamps(cells["requested_at"], to_utc_ns))
    buffer.t_mono_ns = array("q", cells["t_mono_ns"])
    buffer.latency_s = array("d", cells["latency_s"])
    return buffer


def _field_columns(
    schema: RecordSchema, cells: Mapping[str, list[Any]]
) -> dict[str, NumberColumn | TextColumn] | None:
    """The columns of all fields; None where one is missing or a value does not fit."""
    kinds = {field.name: field.kind for field in schema.fields}
    names = tuple(name for name in kinds if name not in RECORDER_FIELDS)
    values, has_others = value_lists(cells["values"], names)
    # A name that collides with a fixed column is another field too.
    if has_others:
        return None
    found = dict(zip(names, values, strict=True))
    for name in RECORDER_FIELDS:
        if name in kinds:
            found[name] = cells[name]
        elif cells[name].count(None) < len(cells[name]):
            return None
    columns = {name: new_column(kind) for name, kind in kinds.items()}
    if all(_fill(column, found[name]) for name, column in columns.items()):
        return columns
    return None


def _fill(column: NumberColumn | TextColumn, cells: list[Any]) -> bool:
    """Fill an empty column; False where a value is of another kind."""
    if isinstance(column, FloatColumn) and (numbers := float_cells(cells)) is not None:
        column.data.frombytes(numbers[0])
        column.valid += numbers[1]
        return True
    if isinstance(column, TextColumn) and set(map(type, cells)) <= {str, type(None)}:
        column.extend(cells)
        return True
    for cell in cells:
        stored = None if cell is None else column.stored(cell)
        if stored is not None:
            column.append(stored)
        elif cell is None:
            column.append_null()
        else:
            return False
    return True


# Arrow record batches to the columns of a recording.

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
            f"a recording can contain numbers, booleans, texts and time stamps"
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
