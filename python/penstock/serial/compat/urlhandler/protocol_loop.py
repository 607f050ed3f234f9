"""``loop://``: what is written comes back; see :mod:`penstock.serial.urls`."""

from __future__ import annotations

from penstock.serial.compat.port import Serial

__all__ = ["Serial"]
