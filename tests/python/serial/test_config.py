"""Settings are validated on creation: type, range, and enum members only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    ByteSize,
    ConfigurationError,
    FlowControl,
    Parity,
    RS485Config,
    SerialConfig,
    SerialError,
    StopBits,
)


def test_defaults_are_8n1_at_115200_and_exclusive() -> None:
    config = SerialConfig()
    assert config.baudrate == 115_200
    assert (config.byte_size, config.parity, config.stop_bits) == (
        ByteSize.EIGHT,
        Parity.NONE,
        StopBits.ONE,
    )
    assert config.flow_control == FlowControl.none()
    assert config.exclusive
    assert config.rs485 is None


def test_equal_settings_compare_equal_and_have_equal_hashes() -> None:
    changed = SerialConfig().with_changes(baudrate=9600)
    assert changed == SerialConfig(baudrate=9600)
    assert hash(changed) == hash(SerialConfig(baudrate=9600))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parity", "E"),
        ("parity", "even"),
        ("byte_size", 8),
        ("stop_bits", 1),
        ("baudrate", True),
        ("baudrate", 9600.5),
        ("baudrate", 0),
        ("baudrate", -9600),
        ("baudrate", 2**33),
        ("baudrate", "9600"),
        ("flow_control", "rtscts"),
        ("exclusive", 1),
        ("low_latency", None),
        ("hangup_on_close", "yes"),
        ("read_chunk_size", 63),
        ("read_chunk_size", 2**24 + 1),
        ("rs485", True),
        ("unsupported_policy", "ignore"),
    ],
)
def test_wrong_setting_is_refused_with_name_and_value(field: str, value: object) -> None:
    settings: dict[str, Any] = {field: value}
    with pytest.raises(ConfigurationError) as caught:
        SerialConfig(**settings)
    assert field in str(caught.value)
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, SerialError)


def test_changed_settings_are_validated_like_new_ones() -> None:
    with pytest.raises(ConfigurationError):
        SerialConfig().with_changes(baudrate=0)


@pytest.mark.parametrize("delay", [-0.001, float("nan"), float("inf"), "1", True])
def test_wrong_rs485_delay_is_refused(delay: Any) -> None:
    with pytest.raises(ConfigurationError):
        RS485Config(delay_before_send=delay)


def test_flow_control_accepts_only_booleans() -> None:
    wrong: Any = 1
    with pytest.raises(ConfigurationError):
        FlowControl(rts_cts=wrong)


@given(baudrate=st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.none()))
def test_any_baudrate_is_kept_or_refused(baudrate: Any) -> None:
    valid = type(baudrate) is int and 1 <= baudrate < 2**32
    if valid:
        assert SerialConfig(baudrate=baudrate).baudrate == baudrate
    else:
        with pytest.raises(ConfigurationError):
            SerialConfig(baudrate=baudrate)
