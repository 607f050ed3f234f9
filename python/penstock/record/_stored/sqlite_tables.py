"""The tables of an SQLite recording as Arrow tables, as far as the database can be read."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.record._files.sqlite_log import lock_path, log_path, read_log
from penstock.record._stored.log_index import connect_to_log
from penstock.record._stored.sound_tables import (
    check_complete,
    converted,
    described_schema,
    fixed_types,
    plain_schema,
)
from penstock.record._stored.table_files import Columns, chosen_columns
from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.recorder_lock import is_being_recorded
from penstock.record.schema import LEADING_COLUMNS

_ROWS_AT_A_TIME = 4096
# Rows that are asked for one by one around damaged pages; beyond them whole ranges are left out.
_MOST_SINGLE_ROWS = 4096
# A message of SQLite may quote a damaged name, which then cannot be decoded (UnicodeDecodeError).
_DATABASE_ERRORS = (sqlite3.Error, OverflowError, ValueError, MemoryError)
_PAGE = re.compile(r"page (\d+)")
_READS_LOG = "mode=ro"


def sqlite_tables(path: Path, table: str, damages: DamageList) -> Iterator[Any]:
    """The tables that a sink with this name for its table has made, in order."""
    pa = pyarrow_module()
    pieces: list[Any] = []
    for piece, _, is_first in sqlite_pieces(path, table, damages):
        if is_first and pieces:
            yield pa.concat_tables(pieces)
            pieces = []
        pieces.append(piece)
    if pieces:
        yield pa.concat_tables(pieces)


def sqlite_pieces(
    path: Path, table: str, damages: DamageList, columns: Columns = None
) -> Iterator[tuple[Any, tuple[str, ...], bool]]:
    """The rows of these tables, some thousand at a time, with the names of all columns.

    The third value tells whether a piece is the first of its table.

    Args:
        path: the database.
        table: the name given to the sink.
        damages: notes what cannot be read.
        columns: the columns that are needed, of those that there are.
    """
    _check_log(path, damages)
    try:
        with closing(connected(path)) as database:
            for name, schema in _listed(database, path, table, damages):
                names = tuple(schema.names)
                chosen = chosen_columns(columns, schema)
                read = schema
                if chosen is not None:
                    pa = pyarrow_module()
                    read = pa.schema([schema.field(each) for each in chosen], schema.metadata)
                first = True
                for piece in _pieces(database, path, name, read, damages):
                    yield piece, names, first
                    first = False
                if first:
                    yield read.empty_table(), names, True
            _check_pages(database, path, damages)
    except _DATABASE_ERRORS as error:
        damages.note(path, "", f"the database cannot be read: {reason_of(error)}")


def _check_log(path: Path, damages: DamageList) -> None:
    """Name what SQLite will not read of the log that a kill has left."""
    if is_being_recorded([lock_path(path)]):
        return
    found = read_log(log_path(path))
    if found is not None and found.more:
        damages.note(log_path(path), f"byte {found.end}", found.more)


def connected(path: Path) -> sqlite3.Connection:
    """A database that is only read, and beside which nothing is left or taken in. sqlite3.Error."""
    mode = _mode(path)
    uri = f"{path.absolute().as_uri()}?{mode}"
    database = connect_to_log(path, uri) if mode == _READS_LOG else sqlite3.connect(uri, uri=True)
    # Texts that are not UTF-8 become surrogates, which no Arrow column takes: their row is refused.
    database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    database.execute("PRAGMA query_only = 1")
    return database


def _mode(path: Path) -> str:
    """How to open a database, so that its folder is afterwards as it was.

    The last connection that may write takes the log in and removes it, with the index of the log;
    one that may not leaves both, and makes them where they are missing. A log that a kill has left
    is for recover to take in, as some of it may be damaged.
    """
    log = log_path(path)
    folder = os.path.dirname(os.path.realpath(path))
    may_write = os.access(path, os.W_OK) and os.access(folder, os.W_OK)
    if is_being_recorded([lock_path(path)]):
        return "mode=rw" if may_write else _READS_LOG
    if not log.exists() or not log.stat().st_size:
        return "mode=rw" if may_write else "mode=ro&immutable=1"
    if not os.access(folder, os.W_OK) and not os.path.exists(f"{os.path.realpath(path)}-shm"):
        raise sqlite3.OperationalError(
            "a kill has left its log, which SQLite reads only in a folder that may be written: "
            "copy both files into one"
        )
    return _READS_LOG


def _listed(
    database: sqlite3.Connection, path: Path, table: str, damages: DamageList
) -> Iterator[tuple[str, Any]]:
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'penstock_parts'").fetchone():
        return  # cut off before the first table
    listed = database.execute("SELECT name, columns, recording FROM penstock_parts ORDER BY part")
    for name, columns, recording in listed.fetchall():
        if not isinstance(name, str) or (name != table and not name.startswith(f"{table}_")):
            continue
        try:
            schema = described_schema(json.loads(columns), json.loads(recording))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            reason = f"its description in penstock_parts cannot be read: {reason_of(error)}"
            damages.note(path, f"table {_shown(name)}", reason)
            if (declared := _declared_columns(database, name)) is not None:
                yield name, declared
        else:
            yield name, plain_schema(arrow_schema(schema))


def _declared_columns(database: sqlite3.Connection, name: str) -> Any:
    """The columns of a table without a description that can be read, as they are declared.

    They have no units then, and truth values are whole numbers. None if there is no such table, or
    it is none of a recording.
    """
    pa = pyarrow_module()
    kinds = {"REAL": pa.float64(), "INTEGER": pa.int64()}
    fixed = fixed_types()
    found = database.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
    names = [column for _, column, *_ in found]
    if tuple(names[: len(LEADING_COLUMNS)]) != LEADING_COLUMNS:
        return None
    try:
        return pa.schema(
            [
                (column, fixed.get(column, kinds.get(kind, pa.string())))
                for _, column, kind, *_ in found
            ]
        )
    except UNREADABLE:
        return None


def _pieces(
    database: sqlite3.Connection, path: Path, name: str, schema: Any, damages: DamageList
) -> Iterator[Any]:
    pa = pyarrow_module()
    columns = ", ".join(map(_quoted, schema.names))

    def convert(rows: Sequence[tuple[Any, ...]]) -> Any:
        cells = list(zip(*rows, strict=True))[1:]
        arrays = [
            pa.array(column, _stored_type(field.type)).cast(field.type)
            for column, field in zip(cells, schema, strict=True)
        ]
        return check_complete(pa.table(arrays, schema=schema), len(rows))

    def refuse(row: tuple[Any, ...], reason: str) -> None:
        damages.note(path, f"table {_shown(name)}, row {row[0]}", reason, 1)

    for rows in _rows(database, path, name, columns, damages):
        yield from converted(rows, convert, refuse)


def _rows(
    database: sqlite3.Connection, path: Path, name: str, columns: str, damages: DamageList
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows with their numbers in front, some thousand at a time.

    A page that cannot be read ends a query. The rest is then asked for in ranges of row numbers,
    which are halved around what cannot be read.
    """
    select = f"SELECT rowid, {columns} FROM {_quoted(name)}"
    found = database.execute(f"{select} ORDER BY rowid")
    last = 0
    try:
        while rows := found.fetchmany(_ROWS_AT_A_TIME):
            last = rows[-1][0]
            yield rows
        return
    except _DATABASE_ERRORS as error:
        reason = reason_of(error)
        found.close()
    try:
        (highest,) = database.execute(f"SELECT max(rowid) FROM {_quoted(name)}").fetchone()
    except _DATABASE_ERRORS:
        highest = None
    if not isinstance(highest, int) or highest <= last:
        damages.note(path, f"table {_shown(name)}, rows from {last + 1} on", reason)
        return
    budget = _MOST_SINGLE_ROWS
    ranges = [(last + 1, highest)]
    while ranges:
        first, stop = ranges.pop()
        if stop - first >= _ROWS_AT_A_TIME:
            middle = first + (stop - first) // 2
            ranges += [(middle + 1, stop), (first, middle)]
            continue
        try:
            asked = database.execute(f"{select} WHERE rowid BETWEEN ? AND ?", (first, stop))
            if rows := asked.fetchall():
                yield rows
        except _DATABASE_ERRORS as error:
            budget -= 1
            if first == stop or budget < 0:
                where = f"row {first}" if first == stop else f"rows {first} to {stop}"
                where = f"table {_shown(name)}, {where}"
                damages.note(path, where, reason_of(error), stop - first + 1)
            else:
                middle = first + (stop - first) // 2
                ranges += [(middle + 1, stop), (first, middle)]


def _check_pages(database: sqlite3.Connection, path: Path, damages: DamageList) -> None:
    """What SQLite itself finds wrong with the pages, even where every row could be read."""
    try:
        lines = [str(row[0]) for row in database.execute("PRAGMA quick_check(100)")]
    except _DATABASE_ERRORS as error:
        damages.note(path, "", f"its pages cannot be checked: {reason_of(error)}")
        return
    for line in "\n".join(lines).splitlines():
        if line == "ok" or line.startswith("***"):
            continue
        page = _PAGE.search(line)
        damages.note(path, f"page {page[1]}" if page else "", line)


def _stored_type(kind: Any) -> Any:
    pa = pyarrow_module()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind) else kind


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(name: object) -> str:
    return ascii(name)[1:-1] if isinstance(name, str) and not name.isprintable() else str(name)
