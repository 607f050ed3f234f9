"""``serial.tools.list_ports``: which ports there are, in pyserial's form."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.serial.discovery import native_ports
from penstock.serial.portinfo import PortInfo

__all__ = ["ListPortInfo", "comports", "grep", "main"]


class ListPortInfo:
    """A port; also the triple ``(device, description, hwid)``."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.name: str = os.path.basename(device)
        self.description = "n/a"
        self.hwid = "n/a"
        self.vid: int | None = None
        self.pid: int | None = None
        self.serial_number: str | None = None
        self.location: str | None = None
        self.manufacturer: str | None = None
        self.product: str | None = None
        self.interface: str | None = None

    @classmethod
    def of(cls, port: PortInfo, device: str | None = None) -> ListPortInfo:
        """The same port as pyserial describes it; *device*: a link to it."""
        info = cls(device or port.device)
        info.description = port.description or "n/a"
        info.hwid = f"LINK={port.device}" if device else port.hwid or "n/a"
        for name in ("vid", "pid", "serial_number", "location"):
            setattr(info, name, getattr(port, name))
        for name in ("manufacturer", "product", "interface"):
            setattr(info, name, getattr(port, name))
        return info

    def usb_description(self) -> str:
        if self.interface is not None:
            return f"{self.product} - {self.interface}"
        return self.product if self.product is not None else self.name

    def usb_info(self) -> str:
        words = [f"USB VID:PID={self.vid or 0:04X}:{self.pid or 0:04X}"]
        if self.serial_number is not None:
            words.append(f"SER={self.serial_number}")
        if self.location is not None:
            words.append(f"LOCATION={self.location}")
        return " ".join(words)

    def apply_usb_info(self) -> None:
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
        return _numbers_apart(self.device) < _numbers_apart(other.device)

    def __str__(self) -> str:
        return f"{self.device} - {self.description}"


def comports(include_links: bool = False) -> list[ListPortInfo]:
    """Return the ports that have hardware behind them; with their links in /dev if asked."""
    ports = native_ports()
    found = [ListPortInfo.of(port) for port in ports]
    if include_links:
        by_node = {os.path.realpath(port.device): port for port in ports}
        for link in sorted([*Path("/dev").glob("*"), *Path("/dev/serial").glob("by-*/*")]):
            target = by_node.get(os.path.realpath(link)) if link.is_symlink() else None
            if target is not None:
                found.append(ListPortInfo.of(target, str(link)))
    return found


def grep(regexp: str, include_links: bool = False) -> Iterator[ListPortInfo]:
    """Yield the ports whose device, description or hardware id matches, whatever the case."""
    pattern = re.compile(regexp, re.IGNORECASE)
    for info in comports(include_links):
        if any(map(pattern.search, (info.device, info.description, info.hwid))):
            yield info


def main() -> None:
    """Print the ports; ``penstock ports`` has more to tell."""
    found = list(grep(sys.argv[1]) if len(sys.argv) > 1 else comports())
    for info in sorted(found):
        print(f"{info.device:20}")
    print(f"{len(found) or 'no'} ports found", file=sys.stderr)


def _numbers_apart(text: str) -> list[tuple[int, str, int]]:
    parts = re.split(r"(\d+)", text)
    return [(1, "", int(part)) if part.isdigit() else (0, part, 0) for part in parts if part]


if __name__ == "__main__":
    main()
