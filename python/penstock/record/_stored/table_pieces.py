"""A Parquet or Arrow file in pieces, each run of it apart, as far as it can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from penstock.record._parts.parts_folder import RUNS_KEY
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record._stored.arrow_tables import arrow_schema_of, arrow_tables
from penstock.record._stored.parquet_tables import parquet_tables
from penstock.record._stored.sound_tables import complete_rows, sound_table
from penstock.record.arrow import METADATA_KEY, pyarrow_module
from penstock.record.damage import UNREADABLE, DamagedError, DamageList

__all__ = ["Columns", "chosen_columns", "table_pieces"]

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
    """All rows, also those that cannot be read; ValueError if some cannot even be counted."""
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
        raise ValueError("the runs do not have the rows of the file")
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
        rest = table
        while rest.num_rows:
            count, about = runs[number]
            if at >= begin + count and number + 1 < len(runs):
                if is_first:
                    yield nothing.replace_schema_metadata(about), names, True
                number, begin, is_first = number + 1, begin + count, True
                continue
            here = min(rest.num_rows, max(begin + count - at, 0) or rest.num_rows)
            piece = rest.slice(0, here).replace_schema_metadata(about)
            yield complete_rows(path, piece, damages), names, is_first
            rest, at, is_first = rest.slice(here), at + here, False
    # A run without rows, as of a recording that has just begun, still has columns and units.
    while number < len(runs):
        if is_first:
            yield nothing.replace_schema_metadata(runs[number][1]), names, True
        number, is_first = number + 1, True


def _only(schema: Any, columns: list[str]) -> Any:
    return pyarrow_module().schema([schema.field(name) for name in columns], schema.metadata)
