"""Columns of an Arrow table of a recording as NumPy arrays, for pictures and pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.record.arrow import pyarrow_module
from penstock.record.envelopes.bins import Numbers, Times

__all__ = ["device_codes", "integers_of", "numbers_of", "plain_column"]


def plain_column(column: Any) -> Any:
    """A column in one piece."""
    pa = pyarrow_module()
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        return column.chunk(0)  # combine_chunks would copy it
    column = column.combine_chunks()
    # Of a table without rows, older versions return a chunked array all the same.
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def integers_of(column: Any) -> Times:
    """Whole numbers, or time stamps as nanoseconds."""
    pa = pyarrow_module()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz))
    found: Times = plain_column(column.cast(pa.int64())).to_numpy()
    return found


def device_codes(column: Any) -> tuple[NDArray[np.int16], list[str]]:
    """The device of each row as a number, and their names."""
    pa = pyarrow_module()
    plain = plain_column(column)
    if not pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_encode()
    # Numbers of 16 bits are sorted by radix, in a fifth of the time. No bus has 32,768 devices.
    codes = plain.indices.to_numpy(zero_copy_only=False).astype(np.int16)
    return codes, [str(text) for text in plain.dictionary.to_pylist()]


def numbers_of(table: Any, field: str) -> Numbers | None:
    """A column as floats, NaN where it has no number; None if there is no such column.

    A column that is a number in one part of a recording may be a text in another: texts that are
    numbers count.
    """
    if field not in table.column_names:
        return None
    pa = pyarrow_module()
    column = plain_column(table[field])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = pa.array(list(map(_number, encoded.dictionary.to_pylist())), pa.float64())
        column = known.take(encoded.indices)
    elif pa.types.is_timestamp(kind):
        return None
    found: Numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
