from __future__ import annotations

import contextlib
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatParseError,
    AlicatUnitIdMismatchError,
    AlicatValidationError,
    Statistic,
    Unit,
)
from penstock.alicat._instrument.setpoints import (
    decimal_text,
    parse_full_scale,
    parse_setpoint_reply,
)

from .captures import FRAME_10V04_METER, FRAME_10V20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (-0.0, "0.0"),
        (75, "75.0"),
        (100.0, "100.0"),
        (1e-05, "0.00001"),
        (12345678.0, "12345678.0"),
        (0.1 + 0.2, "0.3"),
        (5.6e-17, "0.0"),
        (-12.5, "-12.5"),
        (Decimal("0.10"), "0.1"),
        (Fraction(5, 4), "1.25"),
        (numpy.int64(50), "50.0"),
        (numpy.uint8(7), "7.0"),
        (numpy.float64(2.5), "2.5"),
        (numpy.float32(2.5), "2.5"),
        (numpy.array(3.5), "3.5"),
    ],
)
def test_number_is_written_as_a_plain_decimal(value: Any, text: str) -> None:
    assert decimal_text(value) == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        1e16,
        10**400,
        Decimal("nan"),
        Decimal("sNaN"),
        numpy.float32("inf"),
        True,
        numpy.True_,
        "5",
        b"5",
        None,
        2j,
        numpy.complex128(2),
        numpy.array([1.0, 2.0]),
    ],
)
def test_what_is_no_sensible_number_is_refused(value: Any) -> None:
    with pytest.raises(AlicatValidationError, match="a rate"):
        decimal_text(value, "a rate")


@given(st.floats(-1e8, 1e8, width=32))
def test_every_single_precision_number_survives(value: float) -> None:
    text = decimal_text(value)
    assert re.fullmatch(r"-?\d+\.\d+", text)
    assert float(text) == pytest.approx(value, rel=1e-8, abs=1e-9)
    if abs(value) >= 1e-1:
        assert struct.pack("f", float(text)) == struct.pack("f", value)


def test_reply_has_current_requested_and_unit() -> None:
    state = parse_setpoint_reply(b"A +078.95 +078.88 12 SCCM", "A")
    assert (state.current, state.requested, state.unit) == (78.95, 78.88, Unit.SCCM)
    assert state.resolution == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (FRAME_10V20, AlicatCommandRejectedError),
        (FRAME_10V04_METER, AlicatCommandRejectedError),
        (b"A +014.62 +010.00", AlicatCommandRejectedError),
        (b"A   1 ---", AlicatCommandRejectedError),
        (b"?", AlicatCommandRejectedError),
        (b"B +078.95 +078.88 12 SCCM", AlicatUnitIdMismatchError),
        (b"A +078.95 12 SCCM", AlicatParseError),
        (b"A 37", AlicatParseError),
    ],
)
def test_other_replies_to_a_setpoint_are_refused(line: bytes, error: type[AlicatError]) -> None:
    with pytest.raises(error):
        parse_setpoint_reply(line, "A")


def test_full_scale_is_read() -> None:
    full_scale = parse_full_scale(b"A +500.00 12 SCCM", "A", Statistic.MASS_FLOW)
    assert full_scale is not None
    assert (full_scale.value, full_scale.unit) == (500.0, Unit.SCCM)


def test_absent_quantity_has_no_full_scale() -> None:
    assert parse_full_scale(b"A +0 1 ---", "A", Statistic.BARO_PRESS) is None


@given(st.binary(max_size=60))
def test_any_line_is_a_reply_or_refused(line: bytes) -> None:
    for parse in (
        lambda: parse_setpoint_reply(line, "A"),
        lambda: parse_full_scale(line, "A", Statistic.MASS_FLOW),
    ):
        with contextlib.suppress(AlicatError):
            parse()
