from __future__ import annotations

import contextlib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatParseError,
    AlicatUnitIdMismatchError,
    DeviceKind,
    Medium,
)
from penstock.alicat._instrument.identity import (
    is_last_manufacturing_row,
    parse_manufacturing_info,
    parse_version_line,
)
from penstock.alicat._instrument.kinds import kind_and_media_of_model

from .captures import MADE_5V12, MADE_8V17, MADE_10V20, VERSION_8V17, VERSION_10V20


def test_version_line_gives_firmware_and_date() -> None:
    software, firmware, built = parse_version_line(VERSION_10V20, "A")
    assert (software, str(firmware), built) == ("10v20.0-R24", "10v20", date(2025, 1, 9))
    assert parse_version_line(VERSION_8V17, "A")[2] == date(2019, 11, 27)


def test_version_line_may_lack_the_date() -> None:
    assert parse_version_line(b"A GP07R100", "A")[2] is None


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"B" + VERSION_10V20[1:], AlicatUnitIdMismatchError),
        (b"?", AlicatCommandRejectedError),
        (b"A +014.62 +021.89 +000.00 +000.00 +078.95     N2", AlicatParseError),
        (b"A +078.95 +078.88 12 SCCM", AlicatParseError),
        (VERSION_10V20.replace(b"Jan  9", b"Foo 99"), AlicatParseError),
        (b"A  M09 Software Revision 10v20.0-R24", AlicatParseError),
    ],
)
def test_other_lines_are_no_version(line: bytes, error: type[AlicatError]) -> None:
    with pytest.raises(error):
        parse_version_line(line, "A")


@pytest.mark.parametrize(
    ("rows", "model", "serial", "software"),
    [
        (MADE_10V20, "MC-500SCCM-D", "521641", "10v20.0-R24"),
        (MADE_8V17, "MCR-200SLPM-D", "225873", "8v17.0-R23"),
        (MADE_5V12, "MC-500SCCM-D", "122161", "5v12.0-R22"),
    ],
)
def test_manufacturing_table_is_read_by_its_labels(
    rows: list[bytes], model: str, serial: str, software: str
) -> None:
    made = parse_manufacturing_info(rows, "A")
    assert (made.model, made.serial, made.software) == (model, serial, software)
    assert made.manufacturer == "ALICAT SCIENTIFIC"
    assert made.calibrated is not None
    assert made.get(9) == f"Software Revision {software}"


def test_gp_labels_and_backspaces_are_understood() -> None:
    rows = [b"A  M4 Mdl MC-100SCCM-D\x08\x08", b"A  M5 Serial No. 88\x08", b"A  M8 x"]
    made = parse_manufacturing_info(rows, "A")
    assert (made.model, made.serial, made.calibrated) == ("MC-100SCCM-D", "88", None)
    assert is_last_manufacturing_row(rows[-1])


def test_row_of_another_unit_and_a_double_row_are_refused() -> None:
    with pytest.raises(AlicatUnitIdMismatchError):
        parse_manufacturing_info([MADE_10V20[0], b"B" + MADE_10V20[1][1:]], "A")
    with pytest.raises(AlicatParseError, match="twice"):
        parse_manufacturing_info([MADE_10V20[0]] * 2, "A")


@given(st.lists(st.sampled_from(MADE_10V20) | st.binary(min_size=1, max_size=60), max_size=12))
def test_any_rows_parse_or_are_refused(rows: list[bytes]) -> None:
    with contextlib.suppress(AlicatError):
        parse_manufacturing_info(rows, "A")


@given(st.binary(max_size=60))
def test_any_line_is_a_version_or_refused(line: bytes) -> None:
    with contextlib.suppress(AlicatError):
        parse_version_line(line, "A")


@pytest.mark.parametrize(
    ("model", "kind", "media"),
    [
        ("MC-500SCCM-D", DeviceKind.FLOW_CONTROLLER, Medium.GAS),
        ("MCRWD-5SLPM-D", DeviceKind.FLOW_CONTROLLER, Medium.GAS),
        ("MCVS-5SLPM-D", DeviceKind.FLOW_CONTROLLER, Medium.GAS),
        ("M-10SLPM", DeviceKind.FLOW_METER, Medium.GAS),
        ("MW-10SLPM-D", DeviceKind.FLOW_METER, Medium.GAS),
        ("PCD-100PSIA", DeviceKind.PRESSURE_CONTROLLER, Medium.GAS),
        ("P-30PSIG", DeviceKind.PRESSURE_METER, Medium.GAS),
        ("LCR-1LPM", DeviceKind.FLOW_CONTROLLER, Medium.LIQUID),
        ("KC-1", DeviceKind.FLOW_CONTROLLER, Medium.GAS | Medium.LIQUID),
        ("XY-1", DeviceKind.UNKNOWN, Medium.NONE),
        ("", DeviceKind.UNKNOWN, Medium.NONE),
        (None, DeviceKind.UNKNOWN, Medium.NONE),
    ],
)
def test_model_tells_kind_and_media(model: str | None, kind: DeviceKind, media: Medium) -> None:
    assert kind_and_media_of_model(model) == (kind, media)
