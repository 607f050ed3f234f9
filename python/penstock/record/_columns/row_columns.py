"""The columns of a batch as the native row writers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import (
    BoolColumn,
    FloatColumn,
    IntColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
)
from penstock.record.schema import TIME_COLUMNS

if TYPE_CHECKING:
    from penstock._record import Column

__all__ = ["row_columns"]

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
