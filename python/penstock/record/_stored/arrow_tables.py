"""The batches of an Arrow file, one after the other, as far as they can be read.

A batch is validated in full before anything uses it: what pyarrow reads from a damaged file may
have offsets out of its bounds, and the first access to those ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.record._parts.table_formats import ArrowFormat
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of

__all__ = ["arrow_schema_of", "arrow_tables"]

_FIRST_MESSAGE = 8  # of an Arrow file, behind "ARROW1" and two zero bytes


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
    """The batches up to the first damaged one: a file is a stream with an index behind it."""
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
                damages.note(path, f"batch {number} and those behind it", reason_of(error))
                return
            table = pa.Table.from_batches([batch])
            yield begin, table if columns is None else table.select(list(columns))
            begin += batch.num_rows
