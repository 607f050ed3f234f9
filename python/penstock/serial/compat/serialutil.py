"""``serial.serialutil``: pyserial's constants, exceptions, helpers, and the base of its classes."""

from __future__ import annotations

from penstock.serial.compat import definitions
from penstock.serial.compat.base import SerialBase
from penstock.serial.compat.definitions import *  # noqa: F403 - pyserial's names, all of them

__all__ = ["SerialBase"]
__all__ += definitions.__all__
