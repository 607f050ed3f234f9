"""Modes that the driver has beyond termios: RS-485 and low latency."""

from __future__ import annotations

import errno
import termios
from functools import cached_property
from pathlib import Path

from penstock.serial._tty import system_calls
from penstock.serial.config import RS485Config, SerialConfig
from penstock.serial.exceptions import UnsupportedFeatureError

_ENABLED = 1 << 0
_RTS_ON_SEND = 1 << 1
_RTS_AFTER_SEND = 1 << 2
_RX_DURING_TX = 1 << 4
_OURS = _ENABLED | _RTS_ON_SEND | _RTS_AFTER_SEND | _RX_DURING_TX


def software_mode(config: SerialConfig) -> RS485Config | None:
    """Return the RS-485 settings that the port itself carries out; None if the driver does."""
    mode = config.rs485
    return mode if mode is not None and mode.enabled and mode.software else None


class RS485Mode:
    """Switches the mode of one open descriptor, and restores what was set before."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._before: tuple[int, ...] | None = None
        self.active: RS485Config | None = None

    def set(self, config: RS485Config | None) -> None:
        """Apply ``config``; None returns to what was in force before the first one.

        Raises OSError where the driver has no such mode, or does not take these settings.
        """
        if config is None:
            self.restore()
            return
        if config.software:
            self.restore()
            self._release_line(config)
            self.active = config
            return
        words = system_calls.get_rs485(self._fd)
        if self._before is None:
            self._before = words
        wanted = _words(config, words)
        system_calls.set_rs485(self._fd, wanted)
        taken = system_calls.get_rs485(self._fd)
        if (taken[0] ^ wanted[0]) & _OURS or taken[1:3] != wanted[1:3]:
            system_calls.set_rs485(self._fd, words)
            raise UnsupportedFeatureError(
                errno.EINVAL,
                f"{self._path}: the driver does not support these RS-485 settings; try other "
                "delays or RTS polarity",
                self._path,
            )
        self.active = config

    def _release_line(self, config: RS485Config) -> None:
        change = system_calls.raise_lines if config.rts_after_send else system_calls.drop_lines
        change(self._fd, termios.TIOCM_RTS)

    def restore(self) -> None:
        words, self._before, self.active = self._before, None, None
        if words is not None:
            system_calls.set_rs485(self._fd, words)


def _words(config: RS485Config, present: tuple[int, ...]) -> tuple[int, ...]:
    # Bus termination and addressing are not part of this configuration and stay as they are.
    flags = present[0] & ~_OURS
    if config.enabled:
        flags |= _ENABLED
    if config.rts_on_send:
        flags |= _RTS_ON_SEND
    if config.rts_after_send:
        flags |= _RTS_AFTER_SEND
    if config.rx_during_tx:
        flags |= _RX_DURING_TX
    before = round(config.delay_before_send * 1000)
    after = round(config.delay_after_send * 1000)
    return (flags, before, after, *present[3:])


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
                system_calls.set_driver_flags(self._fd, flags)
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
        flags = system_calls.get_driver_flags(self._fd)
        self._flags_before = flags
        if not flags & system_calls.ASYNC_LOW_LATENCY:
            system_calls.set_driver_flags(self._fd, flags | system_calls.ASYNC_LOW_LATENCY)
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
