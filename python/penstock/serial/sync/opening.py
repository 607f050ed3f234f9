"""Opening a port without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.serial.config import SerialConfig
from penstock.serial.sync.port import SerialPort

__all__ = ["SerialConnectable", "configure_portal", "open_serial_port"]


def open_serial_port(
    path: str, config: SerialConfig | None = None, *, timeout: float | None = None
) -> SerialPort:
    """Open *path*, a tty or a URL; raises as :func:`penstock.serial.open_serial_port`.

    *timeout* is taken for symmetry: opening a tty does not wait, and a server has its own limit.
    """
    return SerialPort.open(path, config, timeout=timeout)


@dataclass(kw_only=True)
class SerialConnectable:
    """A port to open later."""

    path: str
    config: SerialConfig | None = None

    def connect(self, *, timeout: float | None = None) -> SerialPort:
        """Open the port; raises as :func:`open_serial_port`."""
        return open_serial_port(self.path, self.config, timeout=timeout)


def configure_portal(
    *, backend: str = "asyncio", backend_options: Mapping[str, Any] | None = None
) -> None:
    """Do nothing: there is no event loop behind these ports to choose.

    Here so that a program written for a library with one runs unchanged.
    """
