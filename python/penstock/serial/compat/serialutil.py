"""``serial.serialutil``: pyserial's constants, exceptions, helpers, and the base of its classes."""

from __future__ import annotations

from penstock.serial.compat import _definitions
from penstock.serial.compat._base import SerialBase
from penstock.serial.compat._definitions import *  # noqa: F403 - pyserial's names, all of them

__all__ = ["SerialBase"]
__all__ += _definitions.__all__
