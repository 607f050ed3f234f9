"""Sample objects to columns, one column at a time: ten times as fast as row by row."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from penstock._record import attribute_lists, float_cells, utc_stamps, value_lists
from penstock.record._columns.columns import (
    ColumnBuffer,
    FloatColumn,
    NumberColumn,
    TextColumn,
    new_column,
)
from penstock.record.sample import Sample, to_utc_ns
from penstock.record.schema import LEADING_COLUMNS, RECORDER_FIELDS, TRAILING_COLUMNS, RecordSchema

__all__ = ["buffer_samples"]

_ATTRIBUTES = (*LEADING_COLUMNS, *TRAILING_COLUMNS, *RECORDER_FIELDS, "values")


def buffer_samples(samples: Sequence[Sample], schema: RecordSchema | None) -> ColumnBuffer:
    """A buffer with a row for each sample; fields unknown to ``schema`` are added behind it."""
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
