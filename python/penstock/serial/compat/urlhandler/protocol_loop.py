"""``loop://``: what is written comes back; see :func:`penstock.serial.open_serial_port`."""

from __future__ import annotations

from penstock.serial.compat._port import Serial

__all__ = ["Serial"]
