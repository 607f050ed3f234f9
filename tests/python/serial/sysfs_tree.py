"""A tree like the kernel's /sys and /dev in a test's folder."""

from __future__ import annotations

from pathlib import Path

from penstock.serial import PortInfo, discovery


class Sysfs:
    """``/sys`` with a class folder of links into a device tree, and ``/dev``."""

    def __init__(self, root: Path) -> None:
        self.tty = root / "sys/class/tty"
        self.devices = root / "sys/devices"
        self.dev = root / "dev"
        for folder in (self.tty, self.devices, self.dev):
            folder.mkdir(parents=True)

    def usb_device(self, location: str, **attributes: str) -> Path:
        folder = self.devices / "pci0000:00/usb1" / location
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in attributes.items():
            (folder / name).write_text(value + "\n")
        return folder

    def add(self, name: str, hardware: Path, **attributes: str) -> None:
        """Add a tty whose ``device`` is ``hardware``."""
        hardware.mkdir(parents=True, exist_ok=True)
        node = hardware / "tty" / name
        node.mkdir(parents=True)
        (node / "device").symlink_to(hardware)
        for key, value in attributes.items():
            (node / key).write_text(value + "\n")
        (self.tty / name).symlink_to(node)
        (self.dev / name).touch()

    def remove(self, name: str) -> None:
        """Remove a tty, but not its parents."""
        (self.tty / name).unlink()
        (self.dev / name).unlink()

    def ports(self) -> list[PortInfo]:
        return discovery.native_ports(self.tty, self.dev)
