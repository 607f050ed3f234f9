"""RS-485: the driver's settings, read back and restored."""

from __future__ import annotations

import errno
import termios

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.serial import RS485Config, UnsupportedFeatureError
from penstock.serial._tty import system_calls
from penstock.serial._tty.driver_modes import RS485Mode
from penstock.serial.testing import EmulatedDriver

ENABLED, ON_SEND, AFTER_SEND, DURING_TX, TERMINATE = 1, 2, 4, 16, 32


@given(
    config=st.builds(
        RS485Config,
        enabled=st.booleans(),
        rts_on_send=st.booleans(),
        rts_after_send=st.booleans(),
        rx_during_tx=st.booleans(),
        delay_before_send=st.integers(0, 1000).map(lambda ms: ms / 1000),
        delay_after_send=st.integers(0, 1000).map(lambda ms: ms / 1000),
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rs485_settings_reach_the_driver_and_are_restored(
    driver: EmulatedDriver, config: RS485Config
) -> None:
    before = driver.rs485
    mode = RS485Mode(0, "port")
    mode.set(config)
    flags, delay_before, delay_after, *rest = driver.rs485
    assert bool(flags & ENABLED) is config.enabled
    assert bool(flags & ON_SEND) is config.rts_on_send
    assert bool(flags & AFTER_SEND) is config.rts_after_send
    assert bool(flags & DURING_TX) is config.rx_during_tx
    assert flags & TERMINATE == before[0] & TERMINATE
    assert delay_before == round(config.delay_before_send * 1000)
    assert delay_after == round(config.delay_after_send * 1000)
    assert tuple(rest) == before[3:]
    mode.set(None)
    assert driver.rs485 == before


def test_rs485_settings_that_the_driver_ignores_are_refused_and_undone(
    driver: EmulatedDriver,
) -> None:
    before = driver.rs485

    def without_delays(request: int) -> None:
        if request == system_calls.TIOCGRS485 and driver.rs485 != before:
            driver.rs485 = (driver.rs485[0], 0, 0, *driver.rs485[3:])

    driver.on_request = without_delays
    mode = RS485Mode(0, "/dev/ttyS1")
    with pytest.raises(UnsupportedFeatureError, match=r"/dev/ttyS1: .*try other delays"):
        mode.set(RS485Config(delay_before_send=0.01))
    assert driver.rs485 == before
    assert mode.active is None


def test_driver_without_the_mode_refuses(driver: EmulatedDriver) -> None:
    driver.has_rs485 = False
    with pytest.raises(OSError, match="Inappropriate ioctl") as caught:
        RS485Mode(0, "port").set(RS485Config())
    assert caught.value.errno == errno.ENOTTY


def test_interrupted_ioctl_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([InterruptedError(), bytes(4)])

    def interrupted(fd: int, request: int, argument: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(system_calls.fcntl, "ioctl", interrupted)
    assert system_calls.ioctl(0, termios.TIOCMGET, bytes(4)) == bytes(4)
