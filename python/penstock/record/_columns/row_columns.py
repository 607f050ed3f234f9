"""The columns of a batch as the native row writers take them, and as JSON types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

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

__all__ = ["describe_columns", "field_from_description", "row_columns"]

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
