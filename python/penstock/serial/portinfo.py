"""What the system knows of a serial port without opening it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PortInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfo:
    """A port's node and, for USB devices, who made it and where it is plugged in.

    ``hwid`` sums them up: ``USB VID:PID=0403:6001 SER=A5XK3RJT LOCATION=1-1.4``.
    """

    device: str
    name: str | None = None
    description: str | None = None
    hwid: str | None = None
    vid: int | None = None
    pid: int | None = None
    serial_number: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    location: str | None = None
    interface: str | None = None
