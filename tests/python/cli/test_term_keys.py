"""The meaning of keys and the display of bytes, without a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli._serial.term_command import HELP, Action, KeyReader, LineEnd, View


@given(st.binary(), st.sampled_from(LineEnd), st.integers(0, 50))
def test_chunking_of_typed_bytes_changes_nothing(typed: bytes, end: LineEnd, cut: int) -> None:
    def meanings(*pieces: bytes) -> list[bytes | Action]:
        reader = KeyReader(end)
        found: list[bytes | Action] = []
        for piece in pieces:
            for item in reader.feed(piece):
                if isinstance(item, bytes) and found and isinstance(found[-1], bytes):
                    found[-1] += item
                else:
                    found.append(item)
        return found

    assert meanings(typed[:cut], typed[cut:]) == meanings(typed)


@given(st.binary().filter(lambda data: not set(data) & {0x14, 0x1D}))
def test_raw_keys_are_sent_unchanged(typed: bytes) -> None:
    assert (
        b"".join(item for item in KeyReader(LineEnd.RAW).feed(typed) if isinstance(item, bytes))
        == typed
    )


@pytest.mark.parametrize("end", [LineEnd.CR, LineEnd.LF, LineEnd.CRLF])
def test_enter_sends_the_chosen_line_end(end: LineEnd) -> None:
    assert list(KeyReader(end).feed(b"a\rb")) == [b"a" + end.value + b"b"]


def test_line_ends_cycle() -> None:
    end = LineEnd.CR
    seen = []
    for _ in LineEnd:
        seen.append(end)
        end = end.following()
    assert set(seen) == set(LineEnd)
    assert end is LineEnd.CR


def test_help_lists_every_key_of_the_menu() -> None:
    for key in "hidrbxlesq":
        action = next(iter(KeyReader(LineEnd.CR).feed(b"\x14" + key.encode())))
        assert isinstance(action, Action)
        assert action is not Action.UNKNOWN
        assert f"{key}  " in HELP


@given(st.binary(), st.binary())
def test_dump_shows_every_byte_with_its_offset(first: bytes, second: bytes) -> None:
    view = View(hexadecimal=True)
    rows = (view.show(first) + view.show(second)).decode().splitlines()
    assert bytes.fromhex("".join(row[10:57] for row in rows)) == first + second
    for row in rows:
        place = int(row[:8], 16)
        assert (first + second)[place : place + 1].hex().upper() == row[10:12]


@given(st.binary())
def test_text_is_shown_unchanged(data: bytes) -> None:
    assert View(hexadecimal=False).show(data) == data
