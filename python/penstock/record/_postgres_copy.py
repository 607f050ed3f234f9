"""Rows as a spool keeps them for PostgreSQL: compressed COPYs that know their table's shape."""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock._record import copy_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.row_text import describe_columns, row_columns
from penstock.record._network.rows import gzip_text
from penstock.record.schema import TIME_COLUMNS, RecordSchema

Beginning = Literal["new", "append", "overwrite"]
"""What becomes of a table that is there already when a run's first rows come."""

_GZIP = 16 + zlib.MAX_WBITS
# One transaction holds at most so many rows.
_ROWS_A_COPY = 65_536


@dataclass(frozen=True, slots=True)
class SpooledCopy:
    """One transaction: rows for one table, each once for all time.

    Attributes:
        run: a random name of the run.
        number: counts the transactions of the run, from 1.
        part: counts the tables of the run, from 1.
        beginning: how the first table of the run begins.
        shape: of the table.
        columns: the names of the columns that the rows have.
        count: the number of rows.
        facts: what is noted of the run at its end, as JSON types.
        rows: in the binary form of COPY.
    """

    run: str
    number: int
    part: int
    beginning: Beginning
    shape: TableShape
    columns: Sequence[str]
    count: int = 0
    facts: Mapping[str, Any] | None = None
    rows: bytes = b""

    def stored(self) -> bytes:
        """The bytes for the spool."""
        shape = self.shape
        head = {
            "run": self.run,
            "number": self.number,
            "part": self.part,
            "beginning": self.beginning,
            "shape": [shape.types, shape.columns, shape.recording],
            "columns": self.columns,
            "count": self.count,
            "facts": self.facts,
        }
        return gzip_text(json.dumps(head, default=str).encode() + b"\n" + self.rows)

    @classmethod
    def read(cls, payload: bytes) -> SpooledCopy:
        """A transaction from the spool."""
        head, _, rows = zlib.decompress(payload, _GZIP).partition(b"\n")
        found = json.loads(head)
        return cls(**{**found, "shape": TableShape(*found["shape"])}, rows=rows)


class CopyEncoder:
    """An :class:`~penstock.record._network.protocol.Encoder`: a payload is one transaction.

    A batch with a new field, another unit or other metadata begins the next part of the run. Which
    table that is, the server decides when the first rows of the part come to it.
    """

    kind = b"PGC1"

    def __init__(self, beginning: Beginning) -> None:
        self.size = 0
        self._run = secrets.token_hex(8)
        self._beginning = beginning
        self._number = 0
        self._part = 0
        self._schema: RecordSchema | None = None
        self._shape: TableShape | None = None
        self._told = True  # whether the part has a payload
        self._waiting: list[tuple[SpooledCopy, list[bytes]]] = []
        self._rows = 0

    def add(self, batch: SampleBatch) -> None:
        if self._schema is None:
            self._begin(batch.schema)
        elif (widened := self._schema.continued_by(batch.schema)) is not None:
            self._begin(widened)
        assert self._schema is not None
        if not (len(batch) or self._told):
            self._next([], 0, b"")  # a table is there before its first row
        for start in range(0, len(batch), _ROWS_A_COPY):
            stop = min(start + _ROWS_A_COPY, len(batch))
            self._next(*self._copied(batch, self._schema, start, stop))

    def end(self, facts: Mapping[str, Any]) -> None:
        """Let the facts of the run wait after its rows."""
        if self._schema is not None:
            self._next([], 0, b"", {"rows": self._rows, **facts})

    def take(self) -> list[tuple[int, bytes]]:
        waiting, self._waiting, self.size = self._waiting, [], 0
        return [(copy.count, replace(copy, rows=b"".join(rows)).stored()) for copy, rows in waiting]

    def _begin(self, schema: RecordSchema) -> None:
        self._schema = schema
        self._shape = TableShape.of(schema)
        self._part += 1
        self._told = False

    @staticmethod
    def _copied(
        batch: SampleBatch, schema: RecordSchema, start: int, stop: int
    ) -> tuple[list[str], int, bytes]:
        columns, rows = copied_rows(batch, schema, start, stop)
        return columns, stop - start, rows

    def _next(
        self, columns: list[str], count: int, rows: bytes, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Let rows wait, with those before them in one COPY where it has room."""
        assert self._shape is not None
        self.size += len(rows)
        self._rows += count
        if self._waiting and self._told and facts is None:
            last, pieces = self._waiting[-1]
            if last.columns == columns and last.count + count <= _ROWS_A_COPY:
                pieces.append(rows)
                self._waiting[-1] = replace(last, count=last.count + count), pieces
                return
        self._told = True
        self._number += 1
        copy = SpooledCopy(
            self._run,
            self._number,
            self._part,
            self._beginning,
            self._shape,
            columns,
            count,
            facts,
        )
        self._waiting.append((copy, [rows]))


# The columns of a recording in PostgreSQL, and rows in the binary form of COPY.

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
        columns = storable_json(json.dumps(describe_columns(schema)))
        return cls(column_types(schema), columns, storable_json(schema.metadata))


# Escaped as JSON has it, and the backslash is not itself escaped.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def storable_json(text: str) -> str:
    """JSON without the one character that PostgreSQL's texts cannot hold."""
    return _NUL.sub(r"\1\\\\0", text)


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
