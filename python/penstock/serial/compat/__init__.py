"""pyserial's interface, so that a script written for it runs here.

``import penstock.serial.compat as serial`` is all that a script needs to change. Libraries that
import ``serial`` themselves get this package after :func:`install`.
"""

from __future__ import annotations

import importlib
import sys

from penstock.serial.compat import definitions, rs485, serialutil, threaded, tools
from penstock.serial.compat.base import SerialBase
from penstock.serial.compat.definitions import *  # noqa: F403 - pyserial's names, all of them
from penstock.serial.compat.serialposix import PosixPollSerial, Serial, VTIMESerial
from penstock.serial.compat.tools import list_ports  # noqa: F401 - so that tools has it
from penstock.serial.compat.urls import protocol_handler_packages, serial_for_url

__all__ = [
    *definitions.__all__,
    "VERSION",
    "PosixPollSerial",
    "Serial",
    "SerialBase",
    "VTIMESerial",
    "install",
    "protocol_handler_packages",
    "rs485",
    "serial_for_url",
    "serialutil",
    "threaded",
    "tools",
]

__version__ = "3.5"
VERSION = __version__
"""The version of pyserial whose interface this is."""

_MODULES = (
    *("rfc2217", "rs485", "serialposix", "serialutil", "threaded", "tools", "urlhandler"),
    *("tools.list_ports", "tools.list_ports_common", "tools.list_ports_linux"),
    *("tools.list_ports_posix", "tools.miniterm"),
)


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
    found = {f"serial.{name}": importlib.import_module(f"{__name__}.{name}") for name in _MODULES}
    sys.modules["serial"] = this
    sys.modules.update(found)
