"""Serial ports without an event loop: the calls block, and take a ``timeout``.

``port = open_serial_port("/dev/ttyUSB0", SerialConfig(baudrate=19_200))``

No thread stands behind it: a call makes the system call itself and, where it must wait, polls the
descriptor together with a descriptor that closing makes readable.
"""

from __future__ import annotations

from penstock.serial.sync.opening import SerialConnectable, configure_portal, open_serial_port
from penstock.serial.sync.port import SerialPort

__all__ = ["SerialConnectable", "SerialPort", "configure_portal", "open_serial_port"]
