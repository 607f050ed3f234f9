"""Low-latency mode: the driver's flag and FTDI's timer, found through any name of the port."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.serial import UnsupportedFeatureError
from penstock.serial._tty import system_calls
from penstock.serial._tty.driver_modes import LowLatency
from penstock.serial.testing import EmulatedDriver


@pytest.fixture
def timer(tmp_path: Path) -> Path:
    """An FTDI adapter in sysfs: its latency timer, at the usual 16 ms."""
    folder = tmp_path / "sys" / "ttyUSB0" / "device"
    folder.mkdir(parents=True)
    file = folder / "latency_timer"
    file.write_text("16\n")
    return file


@pytest.fixture
def link(tmp_path: Path) -> str:
    """A by-id link to the adapter's node."""
    node = tmp_path / "ttyUSB0"
    node.touch()
    name = tmp_path / "usb-FTDI_FT232R_USB_UART_A5XK3RJT-if00-port0"
    name.symlink_to(node)
    return str(name)


def test_timer_is_found_through_a_link_and_restored(
    driver: EmulatedDriver, timer: Path, link: str, tmp_path: Path
) -> None:
    mode = LowLatency(0, link, sysfs=tmp_path / "sys")
    mode.set(True)
    assert timer.read_text() == "1"
    assert driver.flags == system_calls.ASYNC_LOW_LATENCY
    mode.set(False)
    assert timer.read_text() == "16"
    assert driver.flags == 0


def test_switching_on_twice_keeps_the_original_value(
    driver: EmulatedDriver, timer: Path, link: str, tmp_path: Path
) -> None:
    mode = LowLatency(0, link, sysfs=tmp_path / "sys")
    mode.set(True)
    mode.set(True)
    mode.restore()
    assert timer.read_text() == "16"
    assert not mode.active


def test_refused_timer_leaves_the_flag_unchanged(
    driver: EmulatedDriver, timer: Path, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, data: str) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    mode = LowLatency(0, link, sysfs=tmp_path / "sys")
    with pytest.raises(UnsupportedFeatureError, match="latency_timer; grant it with a udev rule"):
        mode.set(True)
    assert driver.flags == 0
    assert not mode.active


def test_driver_that_sets_the_timer_itself_needs_no_permission(
    driver: EmulatedDriver, timer: Path, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, data: str) -> int:
        raise AssertionError("the timer was written although the driver had set it")

    def as_ftdi_sio(request: int) -> None:
        if request == system_calls.termios.TIOCSSERIAL:
            with open(timer, "w") as file:
                file.write("1\n")

    monkeypatch.setattr(Path, "write_text", refuse)
    driver.on_request = as_ftdi_sio
    LowLatency(0, link, sysfs=tmp_path / "sys").set(True)
    assert timer.read_text() == "1\n"


def test_adapter_without_a_timer_gets_only_the_flag(driver: EmulatedDriver, tmp_path: Path) -> None:
    mode = LowLatency(0, "/dev/ttyS0", sysfs=tmp_path)
    mode.set(True)
    assert driver.flags == system_calls.ASYNC_LOW_LATENCY


def test_driver_without_the_mode_refuses(driver: EmulatedDriver, tmp_path: Path) -> None:
    driver.has_flags = False
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        LowLatency(0, "/dev/ttyS0", sysfs=tmp_path).set(True)
