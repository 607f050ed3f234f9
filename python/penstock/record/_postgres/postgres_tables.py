"""The columns of a recording in PostgreSQL, and rows in the binary form of COPY."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock._record import copy_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.row_columns import describe_columns, row_columns
from penstock.record.schema import TIME_COLUMNS, RecordSchema

__all__ = ["TableShape", "column_types", "copied_rows", "quoted"]

_KINDS = {
    "float": "double precision",
    "int": "bigint",
    "bool": "boolean",
    "text": "text",
    "timestamp": "timestamptz",
}


def quoted(name: str) -> str:
    """An identifier; ``schema.table`` is two."""
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def column_types(schema: RecordSchema) -> dict[str, str]:
    """The type of each column."""
    types = {}
    for name in schema.names:
        kind = schema.kind_of(name)
        if kind is not None:
            types[name] = _KINDS[kind]
        elif name in TIME_COLUMNS:
            types[name] = "timestamptz"
        elif name == "t_mono_ns":
            types[name] = "bigint"
        elif name == "latency_s":
            types[name] = "double precision"
        else:
            types[name] = "text"
    return types


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a table is made of.

    Attributes:
        types: the type of each column.
        columns: its columns with their units, as JSON.
        recording: the metadata of the recording, as JSON.
    """

    types: dict[str, str]
    columns: str
    recording: str

    @classmethod
    def of(cls, schema: RecordSchema) -> TableShape:
        """The table for rows of ``schema``."""
        return cls(column_types(schema), json.dumps(describe_columns(schema)), schema.metadata)


def copied_rows(
    batch: SampleBatch, schema: RecordSchema, start: int, stop: int
) -> tuple[list[str], bytes]:
    """The columns and, in the binary form of COPY, the rows ``start`` to ``stop`` of a batch."""
    types = column_types(schema)
    names = [name for name in batch.schema.names if name in types]
    return names, copy_rows(row_columns(batch, names, _storable), start, stop)


def _storable(text: str) -> str:
    # The one character that PostgreSQL's text cannot hold.
    return text.replace("\0", "\\0")
