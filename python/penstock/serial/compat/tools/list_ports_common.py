"""``serial.tools.list_ports_common``: how pyserial describes a port."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from pathlib import Path

from penstock.serial._values import PortInfo

__all__ = ["ListPortInfo", "list_links", "numsplit"]


class ListPortInfo:
    """A port; also the triple ``(device, description, hwid)``."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.name: str = os.path.basename(device)
        self.description: str = "n/a"
        self.hwid: str = "n/a"
        self.vid: int | None = None
        self.pid: int | None = None
        self.serial_number: str | None = None
        self.location: str | None = None
        self.manufacturer: str | None = None
        self.product: str | None = None
        self.interface: str | None = None

    @classmethod
    def of(cls, port: PortInfo, device: str | None = None) -> ListPortInfo:
        """The same port as pyserial describes it; ``device``: a link to it."""
        info = cls(device or port.device)
        info.fill(port)
        if device:
            info.hwid = f"LINK={port.device}"
        return info

    def fill(self, port: PortInfo) -> None:
        """Copy the fields of ``port``."""
        self.description = port.description or "n/a"
        self.hwid = port.hwid or "n/a"
        self.vid, self.pid = port.vid, port.pid
        self.serial_number, self.location = port.serial_number, port.location
        self.manufacturer, self.product = port.manufacturer, port.product
        self.interface = port.interface

    def usb_description(self) -> str:
        """A short text for people: product and interface, or the port's name."""
        if self.interface is not None:
            return f"{self.product} - {self.interface}"
        return self.product if self.product is not None else self.name

    def usb_info(self) -> str:
        """Vendor and product id, serial number and location: the ``hwid`` of a USB port."""
        words = [f"USB VID:PID={self.vid or 0:04X}:{self.pid or 0:04X}"]
        if self.serial_number is not None:
            words.append(f"SER={self.serial_number}")
        if self.location is not None:
            words.append(f"LOCATION={self.location}")
        return " ".join(words)

    def apply_usb_info(self) -> None:
        """Set ``description`` and ``hwid`` from the USB fields."""
        self.description = self.usb_description()
        self.hwid = self.usb_info()

    def __getitem__(self, index: int) -> str:
        return (self.device, self.description, self.hwid)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListPortInfo) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, ListPortInfo):
            return NotImplemented
        return _sortable(self.device) < _sortable(other.device)

    def __str__(self) -> str:
        return f"{self.device} - {self.description}"


def numsplit(text: str) -> list[str | int]:
    """Return the words and the numbers of ``text``, in their order."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text) if part]


def list_links(devices: Container[str]) -> list[str]:
    """Return the links in /dev, and in those of its folders that name ports, to ``devices``."""
    links = sorted([*Path("/dev").glob("*"), *Path("/dev/serial").glob("by-*/*")])
    return [str(link) for link in links if link.is_symlink() and os.path.realpath(link) in devices]


def _sortable(text: str) -> list[tuple[int, str, int]]:
    return [(1, "", part) if isinstance(part, int) else (0, part, 0) for part in numsplit(text)]
