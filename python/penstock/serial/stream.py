"""The serial port as an AnyIO byte stream; the same names as in :mod:`penstock.serial`."""

from __future__ import annotations

from penstock.serial._port.port import SerialConnectable, SerialPort, open_serial_port

__all__ = ["SerialConnectable", "SerialPort", "open_serial_port"]
