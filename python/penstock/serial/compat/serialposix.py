"""``serial.serialposix``: the classes of this platform."""

from __future__ import annotations

from penstock.serial.compat.port import Serial

__all__ = ["PosixPollSerial", "Serial", "VTIMESerial"]

# pyserial's two other ways of waiting; here there is one, and it has the virtues of each.
PosixPollSerial = Serial
VTIMESerial = Serial
