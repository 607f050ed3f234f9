"""The extension's reading of usual frames against the regular expression, which specifies it."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._record import filled, frame_values
from penstock.alicat import AlicatError
from penstock.alicat._instrument.data_frame import parse_data_frame_format
from penstock.alicat._instrument.reading import (
    Column,
    FrameDecoder,
    ParsedFrame,
    Reading,
    slots_of,
)

from .captures import (
    FORMAT_5V12,
    FORMAT_10V04_METER,
    FORMAT_10V20,
    FRAME_5V12,
    FRAME_10V04_METER,
    FRAME_10V20,
)

TABLES = [
    (FORMAT_10V20, FRAME_10V20),
    (FORMAT_10V04_METER, FRAME_10V04_METER),
    (FORMAT_5V12, FRAME_5V12),
]
NUMBERS_ONLY = (Column("a", "float", None), Column("b", "float", 6, decimals=2))
TEXT_FIRST = (Column("name", "text", None), Column("a", "float", None))


def decoders() -> list[tuple[FrameDecoder, bytes]]:
    made = []
    for table, frame in TABLES:
        form = parse_data_frame_format(table)
        made += [(form.decoder("A", frame), frame), (form.decoder("A"), frame)]
    made.append((FrameDecoder(NUMBERS_ONLY, "A"), b"A -0.5 +12.34"))
    made.append((FrameDecoder(NUMBERS_ONLY, "A", sample=b"A 7 +12.34"), b"A 7 +12.34"))
    made.append((FrameDecoder(TEXT_FIRST, "A"), b"A N2 +1.5"))
    return made


def outcome(decoder: FrameDecoder, line: bytes, *, by_pattern: bool) -> str:
    try:
        frame = decoder.by_pattern(line) if by_pattern else decoder(line)
    except AlicatError as error:
        return f"{type(error).__name__}: {error}"
    # As text: -0.0 and 0.0 differ then, and nan is itself.
    return repr((frame.unit_id, dict(frame.values), frame.status, frame.unknown_status))


def assert_same(lines: list[bytes]) -> None:
    """Both ways read the lines alike, one after the other: a gas is believed the second time."""
    pairs = zip(decoders(), decoders(), strict=True)
    for (quick, frame), (specified, _) in pairs:
        for line in (frame, *lines, frame):
            expected = outcome(specified, line, by_pattern=True)
            assert outcome(quick, line, by_pattern=False) == expected, line


signs = st.sampled_from(["", "+", "-", "--", " "])
digits = st.text("0123456789", max_size=18)
number = st.builds(lambda *parts: "".join(parts), signs, digits, st.sampled_from(["", "."]), digits)
word = st.one_of(
    number,
    st.sampled_from(["N2", "Ar", "C2H2", "HLD", "MOV", "XYZ", "-------", "1e5", "nan", "0_1"]),
)
gap = st.sampled_from([" ", "  ", "     ", "      ", "", "\t"])
line_of_words = st.builds(
    lambda unit, words: (unit + "".join(space + text for space, text in words)).encode("ascii"),
    st.sampled_from(["A", "B", "", "AA"]),
    st.lists(st.tuples(gap, word), max_size=9),
)


@given(st.lists(line_of_words, max_size=3))
def test_random_lines(lines: list[bytes]) -> None:
    assert_same(lines)


@given(st.lists(st.binary(max_size=60), max_size=2))
def test_random_bytes(lines: list[bytes]) -> None:
    assert_same([b"A" + line for line in lines])


@st.composite
def damaged_frames(draw: st.DrawFn) -> bytes:
    frame = bytearray(draw(st.sampled_from([frame for _, frame in decoders()])))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(frame) - 1))
        what = draw(st.sampled_from(["change", "drop", "double", "insert"]))
        byte = draw(st.sampled_from(b" .+-0123456789NH\t\xff"))
        if what == "change":
            frame[place] = byte
        elif what == "drop" and len(frame) > 1:
            del frame[place]
        else:
            frame.insert(place, frame[place] if what == "double" else byte)
    return bytes(frame)


@given(st.lists(damaged_frames(), min_size=1, max_size=3))
def test_damaged_frames(lines: list[bytes]) -> None:
    assert_same(lines)


@given(st.integers(0, 10**15 - 1), st.integers(0, 15), st.sampled_from(["", "+", "-"]))
def test_every_number_is_that_of_float(digits: int, decimals: int, sign: str) -> None:
    text = f"{digits:016d}"
    shown = f"{sign}{text[: 16 - decimals]}.{text[16 - decimals :]}".encode()
    values = frame_values(b"A", ("x",), (0,), (-1,), 0, {}, b"A " + shown)
    if values is not None:
        assert repr(values["x"]) == repr(float(shown))
    shown = shown.replace(b".", b"")[-15:]
    values = frame_values(b"A", ("x",), (0,), (-1,), 0, {}, b"A " + shown.lstrip(b"+-"))
    assert values == {"x": float(shown.lstrip(b"+-"))}


@pytest.mark.parametrize(("decoder", "frame"), decoders()[0:5:2])
def test_usual_frame_needs_no_pattern(
    decoder: FrameDecoder, frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = decoder.by_pattern(frame)
    monkeypatch.setattr(FrameDecoder, "by_pattern", None)
    assert decoder(frame) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("A", (), (), (), 0, {}, b""),
        (b"A", (), (), (), 0, {}, "A"),
        (b"A", ("x",), (0,), (), 0, {}, b"A 1"),
        (b"A", ("x", "y", "z"), (0,), (0,), 0, {}, b"A 1"),
        (b"A", ("x",), ("0",), (0,), 0, {}, b"A 1"),
    ],
)
def test_wrong_plans_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        frame_values(*arguments)  # type: ignore[arg-type]


def test_an_instance_made_of_slots_is_the_one_that_its_class_makes() -> None:
    frame = FrameDecoder(NUMBERS_ONLY, "A")(b"A -0.5 +12.34")
    made = ParsedFrame(frame.unit_id, frame.values, frame.status, frame.unknown_status)
    assert type(frame) is ParsedFrame
    assert frame == made
    assert repr(frame) == repr(made)
    assert gc.is_tracked(frame)


def test_what_is_no_slot_of_the_class_is_refused() -> None:
    slots = slots_of(ParsedFrame)
    with pytest.raises(TypeError, match="a value for each slot"):
        filled(ParsedFrame, slots, "A")
    with pytest.raises(TypeError, match="is not a slot of"):
        filled(ParsedFrame, (slots_of(Reading)[0],), "A")
    with pytest.raises(TypeError, match="is not a slot of"):
        filled(ParsedFrame, ("unit_id",), "A")
