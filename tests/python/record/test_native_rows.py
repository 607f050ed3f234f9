"""The native row writers write what Python's csv, json and struct write, byte for byte."""

from __future__ import annotations

import math
import random
import struct
from array import array
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._record import (
    attribute_lists,
    copy_rows,
    csv_rows,
    float_cells,
    json_rows,
    line_counts,
    plain_rows,
    utc_stamps,
    value_lists,
)
from penstock.record._columns.row_text import csv_bytes, json_bytes
from penstock.record._postgres_copy import copied_rows
from penstock.record._sample import to_utc_ns
from tests.python.record.batches import batch_of, bounded, floats, rows, typed_batch
from tests.python.record.plain_rows import plain_copy, plain_csv, plain_json, time_texts

many_rows = st.lists(rows, min_size=1, max_size=12)


@bounded
@given(many_rows, st.data())
def test_csv_is_that_of_the_csv_module(drawn: list[dict[str, Any]], data: Any) -> None:
    batch = batch_of(drawn)
    assert csv_bytes(batch, 0, len(batch)) == plain_csv(batch)
    start = data.draw(st.integers(0, len(batch)))
    stop = data.draw(st.integers(start, len(batch)))
    assert csv_bytes(batch, start, stop) == plain_csv(batch.slice(start, stop))


@bounded
@given(many_rows)
def test_json_is_that_of_the_json_module(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    assert json_bytes(batch, 0, len(batch)) == plain_json(batch)


@bounded
@given(many_rows)
def test_copy_is_that_of_struct(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    assert copied_rows(batch, batch.schema, 0, len(batch)) == (
        list(batch.schema.names),
        plain_copy(batch),
    )


def test_every_kind_of_field_is_written_as_the_modules_write_it() -> None:
    batch = typed_batch()
    assert csv_bytes(batch, 0, len(batch)) == plain_csv(batch)
    assert json_bytes(batch, 0, len(batch)) == plain_json(batch)
    assert copied_rows(batch, batch.schema, 0, len(batch))[1] == plain_copy(batch)


def number_texts(numbers: list[float]) -> list[str]:
    column = ("f", array("d", numbers), None, None)
    text = json_rows([column], [b""], 0, len(numbers)).decode()
    return [line.removesuffix("}") for line in text.splitlines()]


def expected(number: float) -> str:
    return repr(number) if math.isfinite(number) else "null"


@bounded
@given(st.lists(floats, max_size=50))
def test_a_float_is_written_as_repr_does(numbers: list[float]) -> None:
    assert number_texts(numbers) == list(map(expected, numbers))


def test_floats_of_every_size_are_written_as_repr_does() -> None:
    draw = random.Random(16)
    numbers = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(20_000)]
    for digits in range(1, 18):
        for exponent in range(-10, 20):
            number = float(f"{draw.randrange(10**digits)}e{exponent - digits}")
            numbers += [number, -number, math.nextafter(number, 0), math.nextafter(number, 9e99)]
    numbers += [10.0**exponent for exponent in range(-323, 309)]
    numbers += [2.0**exponent for exponent in range(-1074, 1024)]
    assert number_texts(numbers) == list(map(expected, numbers))


def test_csv_has_numbers_that_json_lacks() -> None:
    column = ("f", array("d", [math.nan, math.inf, -math.inf, -0.0]), None, None)
    assert csv_rows([column], 0, 4) == b"nan\r\ninf\r\n-inf\r\n-0\r\n"


stamps_ns = st.integers(-(2**63), 2**63 - 1)


@bounded
@given(st.lists(stamps_ns, max_size=20))
def test_time_stamps_of_all_64_bits_are_written(stamps: list[int]) -> None:
    text = csv_rows([("t", array("q", stamps), None, None)], 0, len(stamps)).decode()
    assert text.splitlines() == time_texts(stamps)


whole = array("q", [1, 2, 3])
codes = array("i", [0, -1, 1])


@pytest.mark.parametrize(
    ("column", "stop", "error"),
    [
        (("q", whole, None, None), 3, ValueError),
        (("i", whole, None, None), 4, ValueError),
        (("i", whole, b"\1\1", None), 3, ValueError),
        (("i", None, None, None), 3, TypeError),
        (("i", whole, None), 3, TypeError),
        (["i", whole, None, None], 3, TypeError),
        (("s", codes, None, [b"one"]), 3, ValueError),
        (("s", codes, None, ["one", "two"]), 3, TypeError),
        (("s", array("i", [-2]), None, []), 1, ValueError),
        (("i", whole, None, None), -1, ValueError),
    ],
)
def test_a_column_that_cannot_be_read_is_refused(
    column: Any, stop: int, error: type[Exception]
) -> None:
    for write in (csv_rows, copy_rows):
        with pytest.raises(error):
            write([column], 0, stop)


def test_there_is_a_label_for_each_column() -> None:
    with pytest.raises(ValueError, match="1 columns and 0 labels"):
        json_rows([("i", whole, None, None)], [], 0, 3)


def test_attributes_become_lists() -> None:
    assert attribute_lists([1 + 2j, 3 + 4j], ("real", "imag")) == ([1.0, 3.0], [2.0, 4.0])
    assert attribute_lists([], ("real",)) == ([],)
    with pytest.raises(AttributeError):
        attribute_lists([1], ("real", "none_of_its_own"))


@bounded
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers() | st.none())))
def test_values_become_lists(mappings: list[dict[str, Any]]) -> None:
    for given_as in (mappings, list(map(MappingProxyType, mappings))):
        cells, others = value_lists(given_as, ("a", "b"))
        assert cells == ([m.get("a") for m in mappings], [m.get("b") for m in mappings])
        assert others == any(m.keys() - {"a", "b"} for m in mappings)


@bounded
@given(st.lists(st.none() | floats))
def test_floats_and_nulls_become_numbers(cells: list[float | None]) -> None:
    found = float_cells(cells)
    assert found is not None
    assert list(found[1]) == [cell is not None for cell in cells]
    assert found[0] == array("d", [0.0 if cell is None else cell for cell in cells]).tobytes()


@pytest.mark.parametrize("other", [1, True, "1.0"])
def test_other_cells_are_no_floats(other: object) -> None:
    assert float_cells([1.0, other]) is None


zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(1, -7))]
)
moments = st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 31), timezones=zones)


@bounded
@given(st.lists(moments, max_size=20))
def test_moments_become_nanoseconds(drawn: list[datetime]) -> None:
    stamps = array("q")
    stamps.frombytes(utc_stamps(drawn, to_utc_ns))
    assert stamps.tolist() == list(map(to_utc_ns, drawn))


def test_a_moment_without_a_zone_or_beyond_64_bits_is_refused() -> None:
    with pytest.raises(TypeError):
        utc_stamps([datetime(2026, 1, 1)], to_utc_ns)
    with pytest.raises(OverflowError):
        utc_stamps([datetime(2263, 1, 1, tzinfo=UTC)], to_utc_ns)


def test_plain_rows_tell_null_from_empty_and_store_numbers_as_sqlite_does() -> None:
    columns: Any = [
        ("f", array("d", [1.5, -0.0, math.nan, 2.0]), bytearray([1, 1, 1, 0]), None),
        ("i", array("q", [-1, 2, 3, 4]), None, None),
        ("b", array("b", [1, 0, 1, 0]), bytearray([1, 1, 0, 1]), None),
        ("t", array("q", [10, 11, 12, 13]), None, None),
        ("s", array("i", [0, 1, -1, 0]), None, ["\N{GREEK SMALL LETTER MU}".encode(), b""]),
    ]
    whole = b"".join(
        [
            b"\1" + struct.pack("<d", 1.5) + b"\1" + struct.pack("<q", -1) + b"\1\1",
            b"\1" + struct.pack("<q", 10) + b"\1\2\0\0\0\xce\xbc",
            b"\1" + struct.pack("<d", 0.0) + b"\1" + struct.pack("<q", 2) + b"\1\0",
            b"\1" + struct.pack("<q", 11) + b"\1\0\0\0\0",
            b"\0\1" + struct.pack("<q", 3) + b"\0\1" + struct.pack("<q", 12) + b"\0",
            b"\0\1" + struct.pack("<q", 4) + b"\1\0",
            b"\1" + struct.pack("<q", 13) + b"\1\2\0\0\0\xce\xbc",
        ]
    )
    assert plain_rows(columns, 0, 4) == whole
    assert b"".join(plain_rows(columns, row, row + 1) for row in range(4)) == whole


@pytest.mark.parametrize("size", [0, 1, 2, 239, 240, 241, 480, 481, 5000])
def test_line_counts_are_those_of_bytes(size: int) -> None:
    for seed in range(20):
        data = bytes(random.Random(seed * size).choices(b'a\r\n"', k=size))
        lone = data.count(b"\r") - data.count(b"\r\n")
        assert line_counts(data) == (data.count(b"\n"), data.count(b'"'), lone)
    assert line_counts(b"\r" * size) == (0, 0, size)
    assert line_counts(b"\r\n" * size) == (size, 0, 0)
    assert line_counts(memoryview(b"\r\n")[: min(size, 1)]) == (0, 0, min(size, 1))
