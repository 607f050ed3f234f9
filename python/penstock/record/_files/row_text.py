"""Batches as text: CSV and JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from penstock._record import csv_rows, json_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.row_columns import row_columns

__all__ = ["csv_bytes", "csv_header", "json_bytes", "json_line", "quoted"]


# Batches as CSV text (RFC 4180).
#
# UTF-8, ``\r\n`` after every row, fields quoted only when they hold a comma, a quote or a line
# break; nulls and empty texts are empty. Times are ISO 8601 with nine decimals and ``Z``; floats
# the shortest decimal that reads back as the same float64, in the notation of ``repr`` without a
# ``.0`` at the end; truth values ``true`` and ``false``.
#
# Rejected: ``pyarrow.csv.write_csv``, which writes a space between date and time and takes 2.5 us
# for a row's three time stamps; and joining columns of text that Arrow's kernels made, which takes
# four times as long as the native writer, and for small batches longer than Python's ``csv``.

_NEEDS_QUOTES = re.compile(r'[",\r\n]')


def csv_header(names: Sequence[str]) -> bytes:
    """The header line."""
    return (",".join(map(quoted, names)) + "\r\n").encode()


def csv_bytes(batch: SampleBatch, start: int, stop: int) -> bytes:
    """The rows ``start`` to ``stop`` of a batch, each ended by a line break."""
    return csv_rows(row_columns(batch, batch.schema.names, quoted), start, stop)


def quoted(text: str) -> str:
    """A text as a field."""
    if _NEEDS_QUOTES.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


# Batches as JSON Lines: UTF-8, one object and ``\n`` a row, with every column.
#
# The bytes are those of ``json.dumps(row, ensure_ascii=False)``; times are texts as in
# :mod:`penstock.record._sinks.csv_text`. JSON has neither NaN nor infinities, so these are null.


def json_line(content: object) -> bytes:
    """One object as a line. A value without a JSON type becomes text."""
    return json.dumps(content, ensure_ascii=False, default=str).encode() + b"\n"


def json_bytes(batch: SampleBatch, start: int, stop: int) -> bytes:
    """The rows ``start`` to ``stop`` of a batch, each ended by a line break."""
    names = batch.schema.names
    return json_rows(row_columns(batch, names, _json_text), _labels(names), start, stop)


@lru_cache(maxsize=64)
def _labels(names: Sequence[str]) -> tuple[bytes, ...]:
    """The text before each value."""
    return tuple(
        f"{', ' if number else '{'}{_json_text(name)}: ".encode()
        for number, name in enumerate(names)
    )


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
