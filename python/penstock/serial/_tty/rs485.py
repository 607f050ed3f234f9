"""RS-485: the driver switches the transmitter by RTS, or the port does so in software."""

from __future__ import annotations

import errno
import termios

from penstock.serial._tty import ttyioctl
from penstock.serial.config import RS485Config, SerialConfig
from penstock.serial.exceptions import UnsupportedFeatureError

__all__ = ["RS485Mode", "software_mode"]

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
        words = ttyioctl.get_rs485(self._fd)
        if self._before is None:
            self._before = words
        wanted = _words(config, words)
        ttyioctl.set_rs485(self._fd, wanted)
        taken = ttyioctl.get_rs485(self._fd)
        if (taken[0] ^ wanted[0]) & _OURS or taken[1:3] != wanted[1:3]:
            ttyioctl.set_rs485(self._fd, words)
            raise UnsupportedFeatureError(
                errno.EINVAL,
                f"{self._path}: its driver does not support these RS-485 settings; try other "
                "delays or RTS polarity",
                self._path,
            )
        self.active = config

    def _release_line(self, config: RS485Config) -> None:
        change = ttyioctl.raise_lines if config.rts_after_send else ttyioctl.drop_lines
        change(self._fd, termios.TIOCM_RTS)

    def restore(self) -> None:
        words, self._before, self.active = self._before, None, None
        if words is not None:
            ttyioctl.set_rs485(self._fd, words)


def _words(config: RS485Config, present: tuple[int, ...]) -> tuple[int, ...]:
    # Bus termination and addressing are no part of this configuration and stay as they are.
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
