"""Low-latency mode: the driver's ASYNC_LOW_LATENCY flag, and FTDI's latency timer."""

from __future__ import annotations

import errno
from functools import cached_property
from pathlib import Path

from penstock.serial._tty import ttyioctl
from penstock.serial.exceptions import UnsupportedFeatureError

__all__ = ["LowLatency"]

_FASTEST_MS = "1"


class LowLatency:
    """Switches the mode of one open descriptor, and restores what was set before."""

    def __init__(self, fd: int, path: str, *, sysfs: Path = Path("/sys/class/tty")) -> None:
        self._fd = fd
        self._path = path
        self._sysfs = sysfs
        self._flags_before: int | None = None
        self._timer_before: str | None = None

    @property
    def active(self) -> bool:
        """Whether the mode was asked for and is in force."""
        return self._flags_before is not None

    def set(self, on: bool) -> None:
        """Switch the mode; raises OSError, with nothing changed, if the driver has none."""
        if on:
            try:
                self._enable()
            except OSError:
                self.restore()
                raise
        else:
            self.restore()

    def restore(self) -> None:
        flags, self._flags_before = self._flags_before, None
        timer, self._timer_before = self._timer_before, None
        try:
            if flags is not None:
                ttyioctl.set_driver_flags(self._fd, flags)
        finally:
            if timer is not None:
                self._timer.write_text(timer)

    @cached_property
    def _timer(self) -> Path:
        # sysfs has the name of the node, not that of a by-id link to it.
        return self._sysfs / Path(self._path).resolve().name / "device" / "latency_timer"

    def _enable(self) -> None:
        if self._flags_before is not None:
            return
        timer = self._read_timer()
        flags = ttyioctl.get_driver_flags(self._fd)
        self._flags_before = flags
        if not flags & ttyioctl.ASYNC_LOW_LATENCY:
            ttyioctl.set_driver_flags(self._fd, flags | ttyioctl.ASYNC_LOW_LATENCY)
        if timer is None or self._read_timer() == _FASTEST_MS:
            # ftdi_sio turns the flag into the timer by itself since Linux 2.6.36.
            return
        try:
            self._timer.write_text(_FASTEST_MS)
        except PermissionError as exc:
            raise UnsupportedFeatureError(
                errno.EPERM,
                f"{self._path}: low latency needs the right to write {self._timer}; grant it "
                "with a udev rule or set low_latency=False",
                self._path,
            ) from exc
        self._timer_before = timer

    def _read_timer(self) -> str | None:
        try:
            return self._timer.read_text().strip()
        except OSError:
            return None  # no FTDI adapter
