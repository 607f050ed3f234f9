"""Parquet and Arrow files and journals as Arrow tables, as far as they can be read.

Every batch is validated in full before anything uses it: what pyarrow reads from a damaged file may
have offsets out of its bounds, and the first access to those ends the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from penstock.record._parts.journal import read_journal
from penstock.record._parts.parts_folder import RUNS_KEY
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._stored.sound_tables import complete_rows, sound_table
from penstock.record.arrow import METADATA_KEY, pyarrow_module
from penstock.record.damage import UNREADABLE, DamagedError, DamageList, reason_of
from penstock.record.errors import RecoveryError


def format_of(path: Path) -> TableFormat:
    """The format of a file, or of the parts of a folder."""
    if path.suffix == ".arrow" or (path.is_dir() and any(path.rglob("part-*.arrow"))):
        return ArrowFormat("zstd")
    return ParquetFormat("zstd")


def table_of_file(path: Path, damages: DamageList) -> Any:
    """The rows of a Parquet or Arrow file; None if none of them can be read.

    OSError where the system refuses to read the file.
    """
    table_format = format_of(path)
    try:
        return table_format.read(path)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = reason_of(error)
    before = damages.count
    try:
        table = _sound_batches(path, damages)
    except UNREADABLE as error:
        damages.note(path, "", f"it cannot be read: {reason_of(error)}")
        return None
    if damages.count == before:
        # Piece by piece nothing was wrong: only together the pieces do not fit.
        damages.note(path, "", f"it cannot be read as a whole: {reason}")
    return table


def journal_table(path: Path, damages: DamageList, *, growing: bool) -> Any:
    """The rows of a journal; None if not even its head can be read.

    Args:
        path: the journal.
        damages: notes what cannot be read.
        growing: True while a recorder writes it: then its end is not torn.
    """
    try:
        content = read_journal(path)
    except RecoveryError as error:
        damages.note(path, "", reason_of(error))
        return None
    if content.fault and content.more:
        damages.note(path, f"byte {content.end}", f"{content.fault}; {content.more}")
    elif content.fault and not growing:
        damages.note_end(path, f"byte {content.end}", "the last batch is not complete")
    return content.table


def _sound_batches(path: Path, damages: DamageList) -> Any:
    pa = pyarrow_module()
    if path.suffix == ".arrow":
        schema, read = arrow_schema_of(path), arrow_tables
    else:
        schema, read = ParquetFormat("zstd").read_schema(path), parquet_tables
    batches = [batch for _, table in read(path, damages) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)


# The batches of an Arrow file, one after the other, as far as they can be read.
#
# A batch is validated in full before anything uses it: what pyarrow reads from a damaged file may
# have offsets out of its bounds, and the first access to those ends the process.

_FIRST_MESSAGE = 8  # of an Arrow file, after "ARROW1" and two zero bytes


def arrow_schema_of(path: Path) -> Any:
    """The schema at the end of the file, or, where that is damaged, the one at its beginning.

    One of UNREADABLE where neither can be read.
    """
    pa = pyarrow_module()
    try:
        return ArrowFormat("zstd").read_schema(path)
    except UNREADABLE:
        with open(path, "rb") as file:
            file.seek(_FIRST_MESSAGE)
            return pa.ipc.open_stream(file).schema


def arrow_tables(
    path: Path, damages: DamageList, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Tables, each with the number of its first row in the file.

    They come by the index at the file's end, or without it up to the first damaged batch. One of
    UNREADABLE where there is neither an index nor a beginning.
    """
    pa = pyarrow_module()
    try:
        reader = ArrowFormat("zstd").open(path, columns)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        damages.note(path, "the index at its end", reason_of(error))
        yield from _stream(path, damages, columns)
        return
    with reader:
        begin = 0
        for number in range(reader.num_record_batches):
            try:
                batch = reader.get_batch(number)
                batch.validate(full=True)
            except UNREADABLE as error:
                rows = _rows_of_batch(path, number)
                damages.note(path, f"batch {number + 1}", reason_of(error), rows)
                begin += rows or 0
            else:
                yield begin, pa.Table.from_batches([batch])
                begin += batch.num_rows


def _rows_of_batch(path: Path, number: int) -> int | None:
    """How many rows a damaged batch has, by its first column; None if that is damaged too."""
    try:
        table_format = ArrowFormat("zstd")
        with table_format.open(path, table_format.read_schema(path).names[:1]) as reader:
            return int(reader.get_batch(number).num_rows)
    except UNREADABLE:
        return None


def _stream(
    path: Path, damages: DamageList, columns: Sequence[str] | None
) -> Iterator[tuple[int, Any]]:
    """The batches up to the first damaged one: a file is a stream with an index after it."""
    pa = pyarrow_module()
    begin = number = 0
    with open(path, "rb") as file:
        file.seek(_FIRST_MESSAGE)
        reader = pa.ipc.open_stream(file)
        while True:
            number += 1
            try:
                batch = reader.read_next_batch()
                batch.validate(full=True)
            except StopIteration:
                return
            except UNREADABLE as error:
                damages.note(path, f"batch {number} and those after it", reason_of(error))
                return
            table = pa.Table.from_batches([batch])
            yield begin, table if columns is None else table.select(list(columns))
            begin += batch.num_rows


# The rows of a Parquet file, some hundred thousand at a time, as far as they can be read.

_ROWS_AT_A_TIME = 1 << 18
_ROWS_AROUND_DAMAGE = 1024
# To hand a few columns to threads and to wait for them takes half as long again as to decode them.
_FEW_COLUMNS = 8


def parquet_tables(
    path: Path, damages: DamageList, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Tables, each with the number of its first row in the file.

    Of a row group that is damaged they are the rows before its first damaged page.
    """
    pa = pyarrow_module()
    use_threads = columns is None or len(columns) > _FEW_COLUMNS
    with ParquetFormat("zstd").open(path) as file:
        begin = 0
        for group in range(file.num_row_groups):
            rows = max(0, file.metadata.row_group(group).num_rows)
            done = 0
            for size in (_ROWS_AT_A_TIME, _ROWS_AROUND_DAMAGE):
                try:
                    skip, skipped = done, 0
                    batches = file.iter_batches(
                        size, row_groups=[group], columns=columns, use_threads=use_threads
                    )
                    for batch in batches:
                        batch.validate(full=True)
                        fresh = batch.slice(max(0, skip - skipped))
                        skipped += batch.num_rows
                        if fresh.num_rows:
                            yield begin + done, pa.Table.from_batches([fresh])
                            done += fresh.num_rows
                    break
                except UNREADABLE as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        raise
                    reason = reason_of(error)
            else:
                place = f"row group {group + 1}, from row {done + 1} on"
                damages.note(path, place, reason, max(0, rows - done))
            begin += rows


# A Parquet or Arrow file in pieces, each run of it apart, as far as it can be read.

Columns: TypeAlias = Sequence[str] | Callable[[Any], Sequence[str]] | None
"""Names of columns, or what chooses them from a part's ``pyarrow.Schema``; None for all."""

_ALL_ROWS = 1 << 62


def chosen_columns(columns: Columns, schema: Any) -> list[str] | None:
    """The names of ``columns`` that ``schema`` has, in its order; None for all of them."""
    if columns is None:
        return None
    wanted = frozenset(columns(schema) if callable(columns) else columns)
    return [name for name in schema.names if name in wanted]


def table_pieces(
    path: Path, damages: DamageList, columns: Columns
) -> Iterator[tuple[Any, tuple[str, ...], bool]] | None:
    """The rows of a file in order, of each run apart; None if it can only be read as a whole.

    Each piece comes with the names of all columns, and whether it is the first of its run.

    Args:
        path: the file.
        damages: notes what cannot be read.
        columns: the columns that are needed.
    """
    try:
        is_arrow = path.suffix == ".arrow"
        stored = arrow_schema_of(path) if is_arrow else _parquet_schema(path)
        metadata = dict(stored.metadata or {})
        listed = metadata.pop(RUNS_KEY, None)
        runs = [(_ALL_ROWS, metadata)]
        if listed is not None:
            runs = _runs(listed, _rows_in(path, stored), metadata)
        schema = stored.with_metadata(metadata or None)
        # What is wrong with the schema is put right, and noted, where the file is read at once.
        quiet = DamageList(strict=True)
        if not sound_table(path, schema.empty_table(), quiet).schema.equals(schema, True):
            return None
        if len(set(schema.names)) < len(schema.names):
            return None
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return None
    except DamagedError:
        return None
    return _pieces(path, damages, schema, chosen_columns(columns, schema), runs)


def _parquet_schema(path: Path) -> Any:
    with ParquetFormat("zstd").open(path) as file:
        return file.schema_arrow


def _rows_in(path: Path, schema: Any) -> int:
    """All rows, including those that cannot be read; ValueError if some cannot even be counted."""
    if path.suffix != ".arrow":
        return ParquetFormat("zstd").count_rows(path)
    quiet = DamageList(strict=False)
    end = max((at + len(t) for at, t in arrow_tables(path, quiet, schema.names[:1])), default=0)
    if quiet.count:
        raise ValueError("its rows cannot be counted")
    return end


def _runs(listed: bytes, rows: int, metadata: dict[bytes, bytes]) -> list[tuple[int, Any]]:
    """How many rows each run has, and its metadata; ValueError where that does not fit."""
    found = []
    for run in json.loads(listed):
        about = json.dumps(run["recording"], ensure_ascii=False).encode()
        found.append((int(run["rows"]), {**metadata, METADATA_KEY: about}))
    if min((count for count, _ in found), default=0) < 0 or sum(n for n, _ in found) != rows:
        raise ValueError("its runs and the file have different numbers of rows")
    return found


def _pieces(
    path: Path,
    damages: DamageList,
    schema: Any,
    columns: list[str] | None,
    runs: list[tuple[int, Any]],
) -> Iterator[tuple[Any, tuple[str, ...], bool]]:
    names = tuple(schema.names)
    nothing = (schema if columns is None else _only(schema, columns)).empty_table()
    number, begin, is_first = 0, 0, True
    read = arrow_tables if path.suffix == ".arrow" else parquet_tables
    for at, table in read(path, damages, columns):
        # Counted here: slices of a table without columns have all of its rows.
        done, rows = 0, table.num_rows
        while done < rows:
            count, about = runs[number]
            if at >= begin + count and number + 1 < len(runs):
                if is_first:
                    yield nothing.replace_schema_metadata(about), names, True
                number, begin, is_first = number + 1, begin + count, True
                continue
            here = min(rows - done, max(begin + count - at, 0) or rows - done)
            piece = table.slice(done, here).replace_schema_metadata(about)
            yield complete_rows(path, piece, damages), names, is_first
            done, at, is_first = done + here, at + here, False
    # A run without rows, such as a recording that has just begun, has columns and units too.
    while number < len(runs):
        if is_first:
            yield nothing.replace_schema_metadata(runs[number][1]), names, True
        number, is_first = number + 1, True


def _only(schema: Any, columns: list[str]) -> Any:
    return pyarrow_module().schema([schema.field(name) for name in columns], schema.metadata)
