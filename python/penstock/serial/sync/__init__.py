"""Serial ports without an event loop: the calls block, and take a ``timeout``.

``port = open_serial_port("/dev/ttyUSB0", SerialConfig(baudrate=19_200))``

There is no thread behind a port. A call makes the system call itself and, if it must wait, polls
the descriptor together with one that closing makes readable.
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.serial.sync._port import (
    SerialConnectable,
    SerialPort,
    configure_portal,
    open_serial_port,
)

__all__ = ["SerialConnectable", "SerialPort", "configure_portal", "open_serial_port"]

_claim(globals())
