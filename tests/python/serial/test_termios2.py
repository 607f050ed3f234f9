"""Conversion of settings to the kernel's termios2 flags and back."""

from __future__ import annotations

import dataclasses
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    ByteSize,
    FlowControl,
    Parity,
    SerialConfig,
    StopBits,
    UnsupportedFeatureError,
)
from penstock.serial._tty.termios2 import BOTHER, CMSPAR, LineSettings, settings_for, unmet_requests

WORD = st.integers(0, 2**32 - 1)
ANY_SETTINGS = st.builds(
    LineSettings,
    WORD,
    WORD,
    WORD,
    WORD,
    st.integers(0, 255),
    st.binary(min_size=19, max_size=19),
    WORD,
    WORD,
)
CONFIGS = st.builds(
    SerialConfig,
    baudrate=st.one_of(st.sampled_from([300, 9600, 115_200, 4_000_000]), st.integers(1, 2**32 - 1)),
    byte_size=st.sampled_from(ByteSize),
    parity=st.sampled_from(Parity),
    stop_bits=st.sampled_from([StopBits.ONE, StopBits.TWO]),
    flow_control=st.builds(FlowControl, xon_xoff=st.booleans(), rts_cts=st.booleans()),
    hangup_on_close=st.booleans(),
)


@given(ANY_SETTINGS)
def test_packing_and_unpacking_lose_nothing(settings: LineSettings) -> None:
    assert LineSettings.unpack(settings.pack()) == settings


@given(CONFIGS, ANY_SETTINGS, ANY_SETTINGS)
def test_no_setting_of_an_earlier_user_survives(
    config: SerialConfig, one: LineSettings, other: LineSettings
) -> None:
    first = settings_for(config, one, "port")
    second = settings_for(config, other, "port")
    kept = {"discipline": 0, "control_chars": b""}
    assert dataclasses.replace(first, **kept) == dataclasses.replace(second, **kept)
    assert first.lflag == first.oflag == 0
    assert first.iflag & ~(termios.IXON | termios.IXOFF) == 0
    assert first.control_chars[termios.VMIN] == 1
    assert first.control_chars[termios.VTIME] == 0


@given(CONFIGS, ANY_SETTINGS)
def test_accepted_settings_match_every_request(
    config: SerialConfig, previous: LineSettings
) -> None:
    wanted = settings_for(config, previous, "port")
    assert unmet_requests(wanted, wanted, has_wire=True) == []
    assert wanted.input_rate == wanted.output_rate == config.baudrate


BLANK = LineSettings(0, 0, 0, 0, 0, bytes(19), 0, 0)


def test_standard_rate_uses_its_constant_and_any_other_its_number() -> None:
    # The kernel's B9600; termios.B9600 is the number 9600 since glibc 2.42.
    assert settings_for(SerialConfig(baudrate=9600), BLANK, "p").cflag & 0o010017 == 0o15
    custom = settings_for(SerialConfig(baudrate=250_001), BLANK, "p")
    assert custom.cflag & 0o010017 == BOTHER
    assert custom.output_rate == 250_001


@pytest.mark.parametrize(
    ("parity", "bits"),
    [
        (Parity.NONE, 0),
        (Parity.EVEN, termios.PARENB),
        (Parity.ODD, termios.PARENB | termios.PARODD),
        (Parity.SPACE, termios.PARENB | CMSPAR),
        (Parity.MARK, termios.PARENB | termios.PARODD | CMSPAR),
    ],
)
def test_each_parity_sets_its_bits(parity: Parity, bits: int) -> None:
    cflag = settings_for(SerialConfig(parity=parity), BLANK, "p").cflag
    assert cflag & (termios.PARENB | termios.PARODD | CMSPAR) == bits


@pytest.mark.parametrize(
    "config",
    [
        SerialConfig(stop_bits=StopBits.ONE_POINT_FIVE),
        SerialConfig(flow_control=FlowControl(dtr_dsr=True)),
    ],
)
def test_setting_unsupported_by_linux_is_refused_with_an_alternative(config: SerialConfig) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"/dev/ttyS0: Linux has no .*; use "):
        settings_for(config, BLANK, "/dev/ttyS0")


@pytest.mark.parametrize(("actual", "accepted"), [(9600, True), (9615, True), (9200, False)])
def test_rate_is_accepted_within_a_receivers_tolerance(actual: int, accepted: bool) -> None:
    wanted = settings_for(SerialConfig(baudrate=9600), BLANK, "p")
    taken = dataclasses.replace(wanted, output_rate=actual)
    assert (unmet_requests(wanted, taken, has_wire=True) == []) is accepted


def test_each_dropped_setting_is_named() -> None:
    config = SerialConfig(
        byte_size=ByteSize.SEVEN,
        parity=Parity.EVEN,
        stop_bits=StopBits.TWO,
        flow_control=FlowControl(xon_xoff=True, rts_cts=True),
    )
    wanted = settings_for(config, BLANK, "p")
    taken = dataclasses.replace(wanted, cflag=0, iflag=0)
    unmet = " ".join(unmet_requests(wanted, taken, has_wire=True))
    for word in ("data bits", "parity", "stop bits", "RTS/CTS", "XON/XOFF"):
        assert word in unmet
