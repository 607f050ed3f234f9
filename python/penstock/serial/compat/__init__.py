"""pyserial's interface, so that a script written for it runs here.

A script changes one line: ``import penstock.serial.compat as serial``. Libraries that import
``serial`` themselves get this package after :func:`install`.
"""

from __future__ import annotations

import importlib
import sys

from penstock._public_names import claim as _claim
from penstock.serial.compat import _definitions, rs485, serialutil, threaded, tools
from penstock.serial.compat._base import SerialBase
from penstock.serial.compat._definitions import *  # noqa: F403 - pyserial's names, all of them
from penstock.serial.compat.serialposix import PosixPollSerial, Serial, VTIMESerial
from penstock.serial.compat.tools import list_ports  # noqa: F401 - makes it an attribute of tools
from penstock.serial.compat.urlhandler import protocol_handler_packages, serial_for_url

__all__ = [
    *_definitions.__all__,
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

_claim(globals())

__version__ = "3.5"
VERSION = __version__
"""The version of pyserial whose interface this is."""

_MODULES = (
    *("rfc2217", "rs485", "serialposix", "serialutil", "threaded", "tools", "urlhandler"),
    *("tools.list_ports", "tools.list_ports_common", "tools.list_ports_linux"),
    *("tools.list_ports_posix", "tools.miniterm"),
    *(
        f"urlhandler.protocol_{kind}"
        for kind in ("alt", "hwgrep", "loop", "rfc2217", "socket", "spy")
    ),
)


def install() -> None:
    """Let ``import serial`` give this package, in this process, from now on.

    Raises:
        RuntimeError: pyserial has been imported already. Its classes are then in use, and each of
            the two ``SerialException`` classes would catch only a part of the errors.
    """
    present = sys.modules.get("serial")
    this = sys.modules[__name__]
    if present is not None and present is not this:
        raise RuntimeError(
            "pyserial is already imported; call install() before anything imports it"
        )
    found = {f"serial.{name}": importlib.import_module(f"{__name__}.{name}") for name in _MODULES}
    sys.modules["serial"] = this
    sys.modules.update(found)
