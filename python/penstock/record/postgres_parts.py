"""Recordings in a PostgreSQL database as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.errors import RecordError
from penstock.record.postgres_copy import quoted
from penstock.record.postgres_server import PostgresServer, load_psycopg
from penstock.record.stored_parts import StoredPart, described_schema, plain_schema

__all__ = ["postgres_parts"]


def postgres_parts(dsn: str, table: str) -> Iterator[StoredPart]:
    """The tables of a recording, in the order of recording, by its URI and first table.

    RecordError where they cannot be read; it does not show the password.
    """
    psycopg = load_psycopg()
    namespace, _, base = table.rpartition(".")
    prefix = f"{quoted(namespace)}." if namespace else ""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            listed = connection.execute(
                f"SELECT name, columns, recording FROM {prefix}penstock_parts ORDER BY part"
            ).fetchall()
            for name, columns, recording in listed:
                if name == base or name.startswith(f"{base}_"):
                    schema = plain_schema(arrow_schema(described_schema(columns, recording)))
                    rows = _rows(connection, f"{prefix}{quoted(name)}", schema)
                    yield StoredPart(Path(name), rows)
    except psycopg.Error as error:
        server = PostgresServer(dsn, table, connect_timeout=0)
        raise RecordError(f"cannot read {server}: {' '.join(str(error).split())}") from error


def _rows(connection: Any, table: str, schema: Any) -> Any:
    pa = pyarrow_module()
    columns = ", ".join(map(quoted, schema.names))
    # Rows are only ever added, so they lie in the order of recording: in a table, and in each chunk
    # of a hypertable, which are created one after the other.
    order = "tableoid, ctid"
    found = connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()
    cells = list(zip(*found, strict=True)) if found else [()] * len(schema)
    arrays = []
    for column, field in zip(cells, schema, strict=True):
        # The server keeps microseconds.
        stored = pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type
        arrays.append(pa.array(column, stored).cast(field.type))
    return pa.table(arrays, schema=schema)
