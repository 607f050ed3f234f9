from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat._bus.wire import MAX_LINE, LineBuffer
from penstock.alicat.errors import AlicatParseError


def lines_of(*chunks: bytes) -> list[bytes]:
    buffer, lines = LineBuffer(), []
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.next_line()) is not None:
            lines.append(line)
    return lines


def test_line_ends_at_carriage_return() -> None:
    assert lines_of(b"A +1.0\rB +2.0\rC") == [b"A +1.0", b"B +2.0"]


@pytest.mark.parametrize("ending", [b"\r", b"\r\n", b"\n\r", b"\r\0", b"  \r", b"\0\r\n\0"])
def test_line_feeds_nuls_and_spaces_around_a_line_are_dropped(ending: bytes) -> None:
    assert lines_of(b"A 1" + ending + b"A 2" + ending) == [b"A 1", b"A 2"]


def test_nuls_inside_a_line_are_dropped() -> None:
    assert lines_of(b"A +0\0" + b"1.0\r") == [b"A +01.0"]


def test_blank_lines_are_skipped() -> None:
    assert lines_of(b"\r\r \r?\r") == [b"?"]


def test_overlong_line_is_refused_and_the_next_one_read() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * (MAX_LINE + 1))
    with pytest.raises(AlicatParseError, match="baud rate"):
        buffer.next_line()
    assert len(buffer) == 0
    buffer.feed(b"A 1\r")
    assert buffer.next_line() == b"A 1"


def test_overlong_line_that_ends_is_refused_alone() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * (MAX_LINE + 1) + b"\rA 1\r")
    with pytest.raises(AlicatParseError):
        buffer.next_line()
    assert buffer.next_line() == b"A 1"


def test_clear_tells_how_much_it_dropped() -> None:
    buffer = LineBuffer()
    buffer.feed(b"A +0")
    assert buffer.clear() == 4
    assert buffer.next_line() is None


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_lines_do_not_depend_on_how_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert lines_of(*chunks) == lines_of(data)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"A 1\r", b"A 1", b"\r", b" \0"])))
def test_taking_a_line_at_once_is_adding_and_taking(chunks: list[bytes]) -> None:
    at_once, in_two_steps = LineBuffer(), LineBuffer()
    for chunk in chunks:
        in_two_steps.feed(chunk)
        assert at_once.take(chunk) == in_two_steps.next_line()
        assert len(at_once) == len(in_two_steps)
    assert at_once.next_line() == in_two_steps.next_line()


@given(st.binary(max_size=300))
def test_lines_are_never_blank_and_hold_no_framing(data: bytes) -> None:
    for line in lines_of(data):
        assert line
        assert line == line.strip(b" \t\r\n\0")
        assert not set(line) & set(b"\r\n\0")
