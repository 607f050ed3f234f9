"""Which serial ports there are, read from sysfs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread

from penstock.serial.portinfo import PortInfo

__all__ = [
    "DiscoveryBackend",
    "canonical_port_name",
    "find_serial_port",
    "list_serial_ports",
    "port_info_for",
]

DiscoveryBackend = Literal["native", "pyudev", "pyserial"]

_SYSFS = Path("/sys/class/tty")
_DEV = Path("/dev")
_UNKNOWN_UART = "0"  # PORT_UNKNOWN: the driver made a node but found no chip behind it


async def list_serial_ports(*, backend: DiscoveryBackend = "native") -> list[PortInfo]:
    """Return the ports that are there now, by name.

    Ports that the 8250 driver only keeps a node for, with no chip behind it, are left out; so
    are consoles and ptys. ``backend`` may name another source, which must be installed:
    ``"pyserial"`` or ``"pyudev"``.
    """
    sources = {"native": native_ports, "pyserial": _pyserial_ports, "pyudev": _pyudev_ports}
    if backend not in sources:
        raise ValueError(f"backend must be one of {', '.join(sources)}, not {backend!r}")
    return await anyio.to_thread.run_sync(sources[backend])


async def find_serial_port(
    *,
    vid: int | None = None,
    pid: int | None = None,
    serial_number: str | None = None,
    device: str | None = None,
    backend: DiscoveryBackend = "native",
) -> PortInfo | None:
    """Return the first port that meets every given condition, or None.

    ``device`` may be a link, such as one in ``/dev/serial/by-id``.
    """
    node = None if device is None else canonical_port_name(device)
    for port in await list_serial_ports(backend=backend):
        if (
            vid in (None, port.vid)
            and pid in (None, port.pid)
            and serial_number in (None, port.serial_number)
            and node in (None, canonical_port_name(port.device))
        ):
            return port
    return None


def canonical_port_name(path: str, *, platform: str | None = None) -> str:
    """Return one name for one port: links resolved, where the path exists. Never raises.

    *platform* is there for anyserial's sake, and changes nothing: ports are Linux's here.
    """
    try:
        return os.path.realpath(path) if os.path.exists(path) else path
    except (OSError, ValueError):
        return path


def native_ports(sysfs: Path = _SYSFS, dev: Path = _DEV) -> list[PortInfo]:
    """Return the hardware ports under *sysfs*; a port that vanishes meanwhile is left out."""
    try:
        nodes = sorted(sysfs.iterdir(), key=lambda node: _natural(node.name))
    except OSError:
        return []
    ports = (_describe(node, dev) for node in nodes)
    return [port for port in ports if port is not None]


def port_info_for(path: str, sysfs: Path = _SYSFS, dev: Path = _DEV) -> PortInfo | None:
    """Return what sysfs knows of the node that *path* leads to, or None. Never raises."""
    node = canonical_port_name(path)
    name = os.path.basename(node)
    # A pty has no entry: to look for one would cost as much as to open it.
    return _describe(sysfs / name, dev) if name and not node.startswith("/dev/pts/") else None


def _describe(node: Path, dev: Path) -> PortInfo | None:
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
    # Since Linux 6.5 a UART hangs on the serial core's own bus, below the one it is really on.
    for place in _upwards(hardware):
        subsystem = place / "subsystem"
        if subsystem.exists() and subsystem.resolve().name != "serial-base":
            return subsystem.resolve().name
    return None


def _first_ancestor_with(start: Path, attribute: str) -> Path | None:
    # A ttyACM hangs on its USB interface, a ttyUSB one level lower, on the usb-serial port.
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


def _natural(name: str) -> tuple[str, int, str]:
    stem = name.rstrip("0123456789")
    number = name[len(stem) :]
    return (stem, int(number) if number else -1, name)


def _pyserial_ports() -> list[PortInfo]:
    list_ports = _optional_module("serial.tools.list_ports", "pyserial")
    return [
        PortInfo(
            device=port.device,
            name=port.name,
            description=port.description,
            hwid=port.hwid,
            vid=port.vid,
            pid=port.pid,
            serial_number=port.serial_number,
            manufacturer=port.manufacturer,
            product=port.product,
            location=port.location,
            interface=port.interface,
        )
        for port in list_ports.comports()
    ]


def _pyudev_ports() -> list[PortInfo]:
    pyudev = _optional_module("pyudev", "pyudev")
    nodes = (Path(device.sys_path) for device in pyudev.Context().list_devices(subsystem="tty"))
    ports = (_describe(node, _DEV) for node in sorted(nodes, key=lambda n: _natural(n.name)))
    return [port for port in ports if port is not None]


def _optional_module(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise ImportError(
            f"serial port discovery through {package} needs it installed: pip install {package}"
        ) from exc
