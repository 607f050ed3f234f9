"""``serial.tools.list_ports_posix``: on Linux, those of Linux."""

from __future__ import annotations

from penstock.serial.compat.tools.list_ports import comports
from penstock.serial.compat.tools.list_ports_common import ListPortInfo

__all__ = ["ListPortInfo", "comports"]
