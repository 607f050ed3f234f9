"""``serial.tools.miniterm``: can be imported; the terminal itself is ``penstock term``."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main(
    default_port: str | None = None,
    default_baudrate: int = 9600,
    default_rts: bool | None = None,
    default_dtr: bool | None = None,
) -> NoReturn:
    """Leave with the command that does the same."""
    command = f"penstock term {default_port or 'PORT'} --baud {default_baudrate}"
    for name, state in (("rts", default_rts), ("dtr", default_dtr)):
        if state is not None:
            command += f" --{name} {'on' if state else 'off'}"
    sys.exit(f"pyserial's miniterm is not in penstock.serial.compat; run: {command}")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"miniterm.{name} is not in penstock.serial.compat; the terminal is the command "
        "penstock term"
    )
