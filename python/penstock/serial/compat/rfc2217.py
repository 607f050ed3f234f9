"""``serial.rfc2217``: pyserial's client of RFC 2217; here every ``Serial`` is one."""

from __future__ import annotations

from typing import NoReturn

from penstock.serial.compat._port import Serial

__all__ = ["Serial"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"rfc2217.{name} is not in penstock.serial.compat; penstock.serial.rfc2217 has a server: "
        "serve_serial_port, and Rfc2217Server for a port that is open"
    )
