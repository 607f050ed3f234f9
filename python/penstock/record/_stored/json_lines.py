"""JSON Lines as Arrow tables: the rows that can be read, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.record._files.line_ends import HEAD_KEY, is_cut, json_object, lines_of
from penstock.record._stored.described_columns import described_columns, types_of
from penstock.record._stored.sound_tables import (
    check_complete,
    converted,
    described_schema,
    fixed_types,
    plain_schema,
)
from penstock.record._stored.table_pieces import Columns, chosen_columns
from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.recorder_lock import is_being_recorded

__all__ = ["jsonl_pieces", "jsonl_table"]

_ROWS_AT_A_TIME = 4096


def jsonl_table(path: Path, damages: DamageList) -> Any:
    """The rows of a JSON Lines file; None if there is nothing in it yet."""
    tables = [table for table, _ in jsonl_pieces(path, damages)]
    if not tables:
        return None
    pa = pyarrow_module()
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def jsonl_pieces(
    path: Path, damages: DamageList, columns: Columns = None
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The rows of a JSON Lines file, some thousand at a time, with the names of all columns.

    Args:
        path: the file.
        damages: notes what cannot be read.
        columns: the columns that are needed, of those that there are.
    """
    # A file without a head, such as an export, may have its description beside it.
    plain: Any = described_columns(path, damages) if path.stat().st_size else None
    types: Any = None
    empty = True

    def convert(rows: Sequence[tuple[int, dict[str, Any]]]) -> Any:
        return check_complete(_of_objects([row for _, row in rows], plain, types), len(rows))

    def refuse(row: tuple[int, dict[str, Any]], reason: str) -> None:
        damages.note(path, f"line {row[0]}", reason, 1)

    for head, rows in _objects(path, plain, damages):
        plain = head
        for table in converted(rows, convert, refuse):
            if plain is None and types is None:
                types = types_of(table, table.schema.names)
            names = tuple(table.schema.names)
            chosen = chosen_columns(columns, table.schema)
            yield table if chosen is None else table.select(chosen), names
            empty = False
    if empty and plain is not None:
        yield plain.empty_table(), tuple(plain.names)


def _objects(
    path: Path, plain: Any, damages: DamageList
) -> Iterator[tuple[Any, list[tuple[int, dict[str, Any]]]]]:
    """The rows with the numbers of their lines, behind the schema that the head states if any."""
    names = None if plain is None else set(plain.names)
    numbered: list[tuple[int, dict[str, Any]]] = []
    with open(path, "rb") as file:
        for number, line in enumerate(lines_of(file), 1):
            content = _object_of(number, line, path, damages)
            if content is None:
                continue
            if HEAD_KEY in content:
                head = content[HEAD_KEY]
                if number == 1 and isinstance(head, dict) and "columns" in head:
                    plain = _headed(head, path, damages)
                    names = None if plain is None else set(plain.names)
                continue
            if names is not None and content.keys() != names:
                damages.note(path, f"line {number}", "its columns are not those of the head", 1)
                continue
            numbered.append((number, content))
            if len(numbered) == _ROWS_AT_A_TIME:
                yield plain, numbered
                numbered = []
    yield plain, numbered


def _object_of(number: int, line: bytes, path: Path, damages: DamageList) -> dict[str, Any] | None:
    if not line.strip():
        return None
    if is_cut(line):
        damages.note(path, f"line {number}", "it is longer than 16 MiB", 1)
        return None
    content = json_object(line)
    if isinstance(content, dict):
        return content
    if line.endswith(b"\n"):
        damages.note(path, f"line {number}", content, 1)
    elif not is_being_recorded([path]):
        damages.note_end(path, f"line {number}", "the last row is not complete")
    return None


def _headed(head: Any, path: Path, damages: DamageList) -> Any:
    try:
        return plain_schema(arrow_schema(described_schema(head["columns"], head["recording"])))
    except UNREADABLE as error:
        damages.note(path, "line 1", f"the head cannot be read: {reason_of(error)}")
        return None


def _of_objects(rows: list[dict[str, Any]], plain: Any, types: Any) -> Any:
    pa = pyarrow_module()
    if plain is None:
        table = pa.Table.from_pylist(rows)
        kinds = fixed_types() if types is None else types
        fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema]
        return table.cast(pa.schema(fields))
    read_as = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in plain
        ]
    )
    return pa.Table.from_pylist(rows, schema=read_as).cast(plain)
