"""``serial.serialposix``: the classes of this platform."""

from __future__ import annotations

from penstock.serial.compat._port import Serial

__all__ = ["PosixPollSerial", "Serial", "VTIMESerial"]

# pyserial has two more ways of waiting. Here one class has the advantages of each.
PosixPollSerial = Serial
VTIMESerial = Serial
