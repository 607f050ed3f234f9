r"""Batches as CSV text (RFC 4180), and how to read where a torn file is still whole.

Two ways that yield the same bytes: plain Python, and Arrow's compute kernels, which take over for
batches of some size when pyarrow is installed. ``pyarrow.csv.write_csv`` itself was rejected: it
writes a space between date and time, quotes every text, and spends 1 us a time stamp.

The format: UTF-8, ``\r\n`` after every row, fields quoted only when they hold a comma, a quote or
a line break; nulls and empty texts are empty; times are ISO 8601 with nine decimals and ``Z``;
floats are the shortest decimal that reads back as the same float64.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

from .arrow import codes_array, column_array, has_pyarrow, pyarrow_module
from .batch import SampleBatch
from .columns import FloatColumn, TextColumn
from .schema import TIME_COLUMNS

__all__ = ["LINE_END", "csv_bytes", "csv_header", "last_whole_line"]

LINE_END = "\r\n"
_SECOND = 1_000_000_000
_NEEDS_QUOTES = re.compile(r'[",\r\n]')
# Below this many rows the fixed cost of some thirty Arrow calls outweighs their speed.
_ARROW_ROWS = 200


def csv_header(names: Sequence[str]) -> bytes:
    """The header line."""
    return (",".join(map(quoted, names)) + LINE_END).encode()


def csv_bytes(batch: SampleBatch) -> bytes | memoryview:
    """The rows of a batch, each ended by a line break."""
    if not len(batch):
        return b""
    if len(batch) >= _ARROW_ROWS and has_pyarrow():
        return arrow_csv(batch)
    return plain_csv(batch)


def quoted(text: str) -> str:
    """A text as a CSV field."""
    if _NEEDS_QUOTES.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def plain_csv(batch: SampleBatch) -> bytes:
    """The rows of a batch without pyarrow."""
    seconds: dict[int, str] = {}
    columns: list[list[str]] = []
    times: dict[int, list[str]] = {}
    for name in batch.schema.names:
        column = batch.raw(name)
        if isinstance(column, TextColumn):
            table = [*map(quoted, column.table), ""]
            columns.append([table[code] for code in column.codes])
        elif isinstance(column, FloatColumn):
            texts = list(map(float_text, column.data))
            if 0 in column.valid:
                texts = [t if ok else "" for t, ok in zip(texts, column.valid, strict=True)]
            columns.append(texts)
        elif name in TIME_COLUMNS:
            # t_utc and received_at are the same moment in a recording.
            known = next((k for k in times if _raw_equal(batch, name, k)), None)
            if known is None:
                known = len(columns)
                times[known] = [_time_text(stamp, seconds) for stamp in column]  # type: ignore[arg-type]
            columns.append(times[known])
        elif column.typecode == "d":
            columns.append(list(map(float_text, column)))
        else:
            columns.append(list(map(str, column)))
    lines = LINE_END.join(map(",".join, zip(*columns, strict=True)))
    return (lines + LINE_END).encode()


def _raw_equal(batch: SampleBatch, name: str, position: int) -> bool:
    return batch.raw(name) == batch.raw(batch.schema.names[position])


def _time_text(stamp: int, seconds: dict[int, str]) -> str:
    second, nanoseconds = divmod(stamp, _SECOND)
    text = seconds.get(second)
    if text is None:
        moment = datetime.fromtimestamp(second, UTC)
        text = seconds[second] = moment.strftime("%Y-%m-%dT%H:%M:%S.")
    return f"{text}{nanoseconds:09d}Z"


def float_text(value: float) -> str:
    """The shortest decimal of a float, in Arrow's notation.

    ``repr`` and Arrow find the same digits; they differ in ``1.0`` against ``1``, in where the
    exponent begins (Arrow: below 1e-6 and from 1e10 on) and in its zero padding.
    """
    text = repr(value)
    if "e" not in text and -1e10 < value < 1e10:
        return text[:-2] if text.endswith(".0") else text
    return _arrow_notation(text)


def _arrow_notation(text: str) -> str:
    if text in ("nan", "inf", "-inf"):
        return text
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return sign + "0"
    # The value is 0.digits * 10^point.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if _DECIMAL_LOW < point <= _DECIMAL_HIGH:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:]}"
    power = point - 1
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power >= 0 else '-'}{abs(power)}"


_DECIMAL_LOW = -6
_DECIMAL_HIGH = 10


def arrow_csv(batch: SampleBatch) -> memoryview:
    """The rows of a batch by Arrow's kernels; the same bytes as :func:`plain_csv`."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    columns: list[Any] = []
    times: list[tuple[array[int], Any]] = []
    for name in batch.schema.names:
        column = batch.raw(name)
        if isinstance(column, TextColumn):
            table = pa.array(list(map(quoted, column.table)), pa.string())
            columns.append(table.take(codes_array(column)))
        elif isinstance(column, FloatColumn):
            columns.append(column_array(column, pa.float64()).cast(pa.string()))
        elif name in TIME_COLUMNS:
            text = next((text for known, text in times if known == column), None)
            if text is None:
                text = _arrow_times(pa, compute, column)
                times.append((column, text))  # type: ignore[arg-type]
            columns.append(text)
        else:
            kind = pa.float64() if column.typecode == "d" else pa.int64()
            columns.append(column_array(column, kind).cast(pa.string()))
    # Line ends join the last column, so that one join makes the whole file.
    columns[-1] = compute.binary_join_element_wise(
        columns[-1], LINE_END, "", null_handling="replace", null_replacement=""
    )
    lines = compute.binary_join_element_wise(
        *columns, ",", null_handling="replace", null_replacement=""
    )
    # Strings lie end to end in one buffer, which is the text that we want.
    _, offsets, data = lines.buffers()
    assert lines.offset == 0
    end = memoryview(offsets).cast("i")[len(lines)]
    return memoryview(data)[:end]


def _arrow_times(pa: Any, compute: Any, column: Any) -> Any:
    stamps = column_array(column, pa.int64())
    # Few different seconds: formatting only those is 20 times faster than a cast of every stamp.
    seconds = compute.divide(stamps, _SECOND)
    decimals = compute.subtract(stamps, compute.multiply(seconds, _SECOND))
    encoded = seconds.dictionary_encode()
    texts = encoded.dictionary.cast(pa.timestamp("s")).cast(pa.string())
    texts = compute.binary_replace_slice(texts, 10, 11, "T").take(encoded.indices)
    # A leading 1 keeps the zeros in front, then gives way to the point.
    padded = compute.add(decimals, _SECOND).cast(pa.string())
    return compute.binary_join_element_wise(
        texts, compute.binary_replace_slice(padded, 0, 1, "."), "Z", ""
    )


def last_whole_line(file: BinaryIO) -> tuple[int, int]:
    """Where the last complete row ends, and how many rows end up to there.

    A row may hold line breaks inside quotes.
    """
    position = end = rows = 0
    inside_quotes = False
    for line in file:
        position += len(line)
        if line.count(b'"') % 2:
            inside_quotes = not inside_quotes
        if not inside_quotes and line.endswith(b"\r\n"):
            end = position
            rows += 1
    return end, rows
