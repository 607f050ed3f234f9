"""pyserial's interface, so that a script written for it runs here.

``import penstock.serial.compat as serial`` is all that a script needs to change. Libraries that
import ``serial`` themselves get this package after :func:`install`.
"""

from __future__ import annotations

import sys

from penstock.serial.compat import rs485, serialutil, threaded, tools
from penstock.serial.compat.port import Serial
from penstock.serial.compat.serialutil import *  # noqa: F403 - pyserial's names, all of them
from penstock.serial.compat.tools import list_ports
from penstock.serial.compat.urls import serial_for_url

__all__ = [
    *serialutil.__all__,
    "VERSION",
    "PosixPollSerial",
    "Serial",
    "VTIMESerial",
    "install",
    "rs485",
    "serial_for_url",
    "serialutil",
    "threaded",
    "tools",
]

__version__ = "3.5"
VERSION = __version__
"""The version of pyserial whose interface this is."""

# pyserial's two other ways of waiting; here there is one, and it has the virtues of each.
PosixPollSerial = Serial
VTIMESerial = Serial

_MODULES = {
    "serial.rs485": rs485,
    "serial.serialutil": serialutil,
    "serial.threaded": threaded,
    "serial.tools": tools,
    "serial.tools.list_ports": list_ports,
}


def install() -> None:
    """Make ``import serial`` give this package, in this process, from now on.

    Raises RuntimeError where pyserial itself has been imported already: its classes are then in
    use, and two kinds of ``SerialException`` would catch only half of what they should.
    """
    present = sys.modules.get("serial")
    this = sys.modules[__name__]
    if present is not None and present is not this:
        raise RuntimeError(
            "pyserial is imported already; call install() before anything imports it"
        )
    sys.modules["serial"] = this
    sys.modules.update(_MODULES)
