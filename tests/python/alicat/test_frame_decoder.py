from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatParseError,
    AlicatStreamingModeError,
    AlicatUnitIdMismatchError,
    StatusCode,
)
from penstock.alicat._instrument.data_frame import parse_data_frame_format
from penstock.alicat._instrument.reading import FrameDecoder, UnseenGasError

from .captures import (
    FORMAT_5V12,
    FORMAT_10V04_METER,
    FORMAT_10V20,
    FRAME_5V12,
    FRAME_10V04_METER,
    FRAME_10V20,
)

FORMAT = parse_data_frame_format(FORMAT_10V20)


@pytest.fixture
def decoder() -> FrameDecoder:
    return FORMAT.decoder("A", FRAME_10V20)


def test_frame_becomes_values_in_order(decoder: FrameDecoder) -> None:
    frame = decoder(FRAME_10V20)
    assert frame.unit_id == "A"
    assert list(frame.values.items()) == [
        ("Abs_Press", 14.62),
        ("Flow_Temp", 21.89),
        ("Volu_Flow", 0.0),
        ("Mass_Flow", 0.0),
        ("Mass_Flow_Setpt", 78.95),
        ("Gas", "N2"),
    ]
    assert frame.status == frozenset()


@pytest.mark.parametrize("code", list(StatusCode))
def test_every_status_code_is_known(decoder: FrameDecoder, code: StatusCode) -> None:
    assert decoder(FRAME_10V20 + b" " + code.value.encode()).status == {code}


def test_several_status_codes_are_collected_and_leave_the_gas_alone(decoder: FrameDecoder) -> None:
    frame = decoder(FRAME_10V20 + b" P2O COM GTA HLD")
    assert frame.status == {StatusCode.P2O, StatusCode.COM, StatusCode.GTA, StatusCode.HLD}
    assert frame.values["Gas"] == "N2"


def test_unknown_code_is_kept_if_advertised_and_refused_if_not() -> None:
    advertising = parse_data_frame_format([row.replace(b"GTA", b"XYZ") for row in FORMAT_10V20])
    frame = advertising.decoder("A")(FRAME_10V20 + b" XYZ HLD")
    assert (frame.status, frame.unknown_status) == ({StatusCode.HLD}, {"XYZ"})
    with pytest.raises(AlicatParseError):
        FORMAT.decoder("A")(FRAME_10V20 + b" XYZ")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"?", AlicatCommandRejectedError),
        (b"A ?", AlicatCommandRejectedError),
        (b"A   Feature Not Enabled", AlicatCommandRejectedError),
        (b"A   1 ---", AlicatCommandRejectedError),
        (b"A +0 1 ---", AlicatCommandRejectedError),
        (b"B" + FRAME_10V20[1:], AlicatUnitIdMismatchError),
        (b"B ?", AlicatUnitIdMismatchError),
        (b"@" + FRAME_10V20[1:], AlicatStreamingModeError),
        (FRAME_10V20[2:], AlicatStreamingModeError),
        (b"A", AlicatParseError),
        (b"A +014.62 +021.89 +000.00 +000.00     N2", AlicatParseError),
        (FRAME_10V20.replace(b"+078.95", b"+078.95 +001.00"), AlicatParseError),
        (FRAME_10V20.replace(b"+078.95     N2", b"+078.95"), AlicatParseError),
        (FRAME_10V20.replace(b"     N2", b" HLD"), AlicatParseError),
        (FRAME_10V20.replace(b"+014.62 ", b"+014.62"), AlicatParseError),
        (FRAME_10V20.replace(b"+014.62", b"+0_4.62"), AlicatParseError),
        (FRAME_10V20.replace(b"+014.62", b"  1e5  "), AlicatParseError),
        (FRAME_10V20.replace(b"+014.62", b"    nan"), AlicatParseError),
        (b"A   10v20.0-R24 Jan  9 2025,15:04:07", AlicatParseError),
        (b"A +078.95 +078.88 12 SCCM", AlicatParseError),
        (b"A \xff\xfe", AlicatParseError),
    ],
)
def test_everything_else_is_refused_with_its_reason(
    decoder: FrameDecoder, line: bytes, error: type[AlicatError]
) -> None:
    with pytest.raises(error):
        decoder(line)


@pytest.mark.parametrize(
    ("table", "frame"),
    [
        (FORMAT_10V20, FRAME_10V20),
        (FORMAT_10V04_METER, FRAME_10V04_METER),
        (FORMAT_5V12, FRAME_5V12),
    ],
)
def test_frame_that_lost_any_one_byte_is_refused(table: list[bytes], frame: bytes) -> None:
    decoder = parse_data_frame_format(table).decoder("A", frame)
    for lost in range(len(frame)):
        damaged = (frame[:lost] + frame[lost + 1 :]).strip()
        with pytest.raises(AlicatError):
            decoder(damaged)


def test_column_may_grow_beyond_its_width(decoder: FrameDecoder) -> None:
    values = decoder(FRAME_10V20.replace(b"+078.95", b"+1078.95")).values
    assert values["Mass_Flow_Setpt"] == 1078.95


def test_widths_that_the_sample_contradicts_are_not_insisted_on() -> None:
    sample = FRAME_10V20.replace(b"+078.95", b"+78.95")
    decoder = FORMAT.decoder("A", sample)
    assert decoder.confirmed_widths == (7, 7, 7, 7, None, 6)
    assert decoder(sample).values["Mass_Flow_Setpt"] == 78.95
    assert decoder(sample.replace(b"+78.95", b"+8.95")).values["Mass_Flow_Setpt"] == 8.95


def test_dashes_are_not_a_number(decoder: FrameDecoder) -> None:
    values = decoder(FRAME_10V20.replace(b"+021.89", b"-------")).values
    assert math.isnan(float(values["Flow_Temp"]))
    assert values["Mass_Flow_Setpt"] == 78.95


def test_unheard_of_gas_is_believed_the_second_time(decoder: FrameDecoder) -> None:
    frame = FRAME_10V20.replace(b"    N2", b"  Mix7")
    with pytest.raises(UnseenGasError, match="Mix7"):
        decoder(frame)
    assert decoder(frame).values["Gas"] == "Mix7"
    assert decoder(frame).values["Gas"] == "Mix7"


def test_known_gas_is_believed_at_once(decoder: FrameDecoder) -> None:
    assert decoder(FRAME_10V20.replace(b" N2", b"CO2")).values["Gas"] == "CO2"


@given(
    st.lists(
        st.floats(-999.99, 999.99, allow_nan=False).map(lambda v: round(v, 2)),
        min_size=5,
        max_size=5,
    ),
    st.sets(st.sampled_from(list(StatusCode))),
)
def test_every_frame_that_is_written_is_read(numbers: list[float], codes: set[StatusCode]) -> None:
    line = b"A " + b" ".join(b"%+07.2f" % number for number in numbers) + b"    Ar"
    line = line.replace(b"    Ar", b" " + b"Ar".rjust(6))
    line += b"".join(b" " + code.value.encode() for code in codes)
    frame = FORMAT.decoder("A", FRAME_10V20)(line)
    assert list(frame.values.values())[:5] == numbers
    assert frame.status == codes


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_are_refused(line: bytes) -> None:
    with contextlib.suppress(AlicatError):
        FORMAT.decoder("A", FRAME_10V20)(line)


@given(st.integers(0, len(FRAME_10V20) - 1), st.integers(0, 255))
def test_changed_byte_changes_one_value_at_most(place: int, byte: int) -> None:
    damaged = bytearray(FRAME_10V20)
    damaged[place] = byte
    try:
        values = FORMAT.decoder("A", FRAME_10V20)(bytes(damaged)).values
    except AlicatError:
        return
    intact = FORMAT.decoder("A")(FRAME_10V20).values
    assert sum(values[name] != intact[name] for name in intact) <= 1


@pytest.mark.parametrize(
    ("table", "frame", "changed"),
    [
        (FORMAT_10V20, FRAME_10V20, FRAME_10V20.replace(b"+078.95", b"+07.895")),
        (FORMAT_10V20, FRAME_10V20, FRAME_10V20.replace(b"+078.95", b"+0078.9")),
        (FORMAT_5V12, FRAME_5V12, FRAME_5V12.replace(b"0116.3", b"116.30")),
    ],
)
def test_digits_after_the_point_are_those_of_the_unit(
    table: list[bytes], frame: bytes, changed: bytes
) -> None:
    decoder = parse_data_frame_format(table).decoder("A", frame)
    assert decoder.accepts(frame)
    assert not decoder.accepts(changed)
    with pytest.raises(AlicatParseError):
        decoder(changed)


def test_reading_beyond_its_digits_keeps_its_decimals(decoder: FrameDecoder) -> None:
    beyond = FRAME_10V20.replace(b"+078.95", b"+1078.95")
    assert decoder(beyond).values["Mass_Flow_Setpt"] == 1078.95
