r"""Batches as JSON Lines: UTF-8, one object and ``\n`` a row, with every column.

The bytes are those of ``json.dumps(row, ensure_ascii=False)``; times are texts as in
:mod:`penstock.record._sinks.csv_text`. JSON has neither NaN nor infinities, so these are null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from penstock._record import json_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.row_columns import row_columns

__all__ = ["json_bytes", "json_line"]


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
