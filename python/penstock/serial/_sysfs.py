"""The serial ports that sysfs lists, without opening any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from penstock.serial._values import PortInfo

_SYSFS = Path("/sys/class/tty")
_DEV = Path("/dev")
_UNKNOWN_UART = "0"  # PORT_UNKNOWN: the driver made a node but found no chip behind it


def canonical_port_name(path: str, *, platform: str | None = None) -> str:
    """Return one name for one port: links resolved, where the path exists. Never raises.

    ``platform`` is accepted because anyserial has it. It has no effect: ports are Linux's here.
    """
    try:
        return os.path.realpath(path) if os.path.exists(path) else path
    except (OSError, ValueError):
        return path


def native_ports(sysfs: Path = _SYSFS, dev: Path = _DEV) -> list[PortInfo]:
    """Return the hardware ports under ``sysfs`` that are still there when they are read."""
    try:
        nodes = sorted(sysfs.iterdir(), key=lambda node: port_order(node.name))
    except OSError:
        return []
    ports = (describe_port(node, dev) for node in nodes)
    return [port for port in ports if port is not None]


def port_info_for(path: str, sysfs: Path = _SYSFS, dev: Path = _DEV) -> PortInfo | None:
    """Return what sysfs knows of the node that ``path`` leads to, or None. Never raises."""
    node = canonical_port_name(path)
    name = os.path.basename(node)
    # A pty has no entry; looking for one would cost as much as opening it.
    return describe_port(sysfs / name, dev) if name and not node.startswith("/dev/pts/") else None


def describe_port(node: Path, dev: Path) -> PortInfo | None:
    try:
        hardware = (node / "device").resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    if "virtual" in hardware.parts or _text(node / "type") == _UNKNOWN_UART:
        return None
    device = str(dev / node.name)
    usb = _first_ancestor_with(hardware, "idVendor")
    if usb is None:
        kind = _bus_of(hardware)
        return PortInfo(device=device, name=node.name, description=node.name, hwid=kind)
    vid, pid = _hexadecimal(usb / "idVendor"), _hexadecimal(usb / "idProduct")
    serial_number = _text(usb / "serial")
    interface_dir = _first_ancestor_with(hardware, "bInterfaceNumber")
    interface = _text(interface_dir / "interface") if interface_dir is not None else None
    product = _text(usb / "product")
    description = " - ".join(word for word in (product, interface) if word) or node.name
    return PortInfo(
        device=device,
        name=node.name,
        description=description,
        hwid=_hwid(vid, pid, serial_number, usb.name),
        vid=vid,
        pid=pid,
        serial_number=serial_number,
        manufacturer=_text(usb / "manufacturer"),
        product=product,
        location=usb.name,
        interface=interface,
    )


def _bus_of(hardware: Path) -> str | None:
    # Since Linux 6.5 a UART is on the serial core's bus, below the one it is connected to.
    for place in _upwards(hardware):
        subsystem = place / "subsystem"
        if subsystem.exists() and subsystem.resolve().name != "serial-base":
            return subsystem.resolve().name
    return None


def _first_ancestor_with(start: Path, attribute: str) -> Path | None:
    # A ttyACM is a child of its USB interface, a ttyUSB of the usb-serial port one level lower.
    return next((place for place in _upwards(start) if (place / attribute).is_file()), None)


def _upwards(start: Path) -> Iterator[Path]:
    yield start
    yield from start.parents


def _hwid(vid: int | None, pid: int | None, serial_number: str | None, location: str) -> str:
    words = [f"USB VID:PID={vid or 0:04X}:{pid or 0:04X}"]
    if serial_number:
        words.append(f"SER={serial_number}")
    words.append(f"LOCATION={location}")
    return " ".join(words)


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _hexadecimal(file: Path) -> int | None:
    try:
        return int(_text(file) or "", 16)
    except ValueError:
        return None


def port_order(name: str) -> tuple[str, int, str]:
    stem = name.rstrip("0123456789")
    number = name[len(stem) :]
    return (stem, int(number) if number else -1, name)
