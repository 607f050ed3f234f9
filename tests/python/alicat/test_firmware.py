from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import AlicatParseError, FirmwareFamily, FirmwareVersion


@pytest.mark.parametrize(
    ("text", "family", "shown"),
    [
        ("10v20.0-R24", FirmwareFamily.V10, "10v20"),
        ("8v17.0-R23", FirmwareFamily.V8_V9, "8v17"),
        ("9v00", FirmwareFamily.V8_V9, "9v00"),
        ("5v12.0-R22", FirmwareFamily.V1_V7, "5v12"),
        ("A   6v21.0-R22 Jan  1 2020", FirmwareFamily.V1_V7, "6v21"),
        ("10.05", FirmwareFamily.V10, "10v05"),
        ("GP", FirmwareFamily.GP, "GP"),
        ("GP07R100", FirmwareFamily.GP, "GP"),
    ],
)
def test_family_and_number_are_found(text: str, family: FirmwareFamily, shown: str) -> None:
    version = FirmwareVersion.parse(text)
    assert version.family is family
    assert str(version) == shown
    assert version.raw == text


@pytest.mark.parametrize("text", ["", "v", "0v5", "hello", "10", "MC-500SCCM-D"])
def test_text_without_a_version_is_refused(text: str) -> None:
    with pytest.raises(AlicatParseError, match="10v20"):
        FirmwareVersion.parse(text)


def test_versions_of_one_family_are_ordered() -> None:
    parse = FirmwareVersion.parse
    assert parse("10v05") < parse("10v20")
    assert parse("9v00") > parse("8v30")
    assert parse("10v05.0-R1") == parse("10v5")
    assert parse("1v00") <= parse("7v99")


def test_versions_of_two_families_have_no_order() -> None:
    with pytest.raises(TypeError, match="families"):
        _ = FirmwareVersion.parse("10v05") > FirmwareVersion.parse("8v30")
    assert FirmwareVersion.parse("GP") != FirmwareVersion.parse("10v05")


@pytest.mark.parametrize(
    ("text", "modern"),
    [("10v00", True), ("9v00", True), ("8v30", False), ("7v09", False), ("GP", False)],
)
def test_modern_setpoint_is_known_by_version(text: str, modern: bool) -> None:
    assert FirmwareVersion.parse(text).has_modern_setpoint is modern


@given(st.integers(1, 99), st.integers(0, 99), st.sampled_from(["", ".0-R24", ".1-R1 Jan  9 2025"]))
def test_every_version_parses_to_itself(major: int, minor: int, tail: str) -> None:
    version = FirmwareVersion.parse(f"{major}v{minor:02d}{tail}")
    assert (version.major, version.minor) == (major, minor)


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(AlicatParseError):
        FirmwareVersion.parse(text)
