"""Listing and finding serial ports, without opening them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread

from penstock.serial._sysfs import (
    canonical_port_name,
    describe_port,
    native_ports,
    port_order,
)
from penstock.serial._values import PortInfo

__all__ = [
    "DiscoveryBackend",
    "PortInfo",
    "canonical_port_name",
    "find_serial_port",
    "list_serial_ports",
    "native_ports",
]

DiscoveryBackend = Literal["native", "pyudev", "pyserial"]


async def list_serial_ports(*, backend: DiscoveryBackend = "native") -> list[PortInfo]:
    """Return the present ports, sorted by name. Opens none of them.

    Leaves out nodes of the 8250 driver without a chip behind them, consoles and ptys. Reads sysfs
    in a worker thread. ``backend`` may name another source: ``"pyserial"`` or ``"pyudev"``.

    Raises:
        ValueError: There is no such ``backend``.
        ImportError: The package of ``backend`` is not installed.
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
    """Return the first port that meets all given conditions, or None.

    Args:
        vid: The USB vendor number.
        pid: The USB product number.
        serial_number: The serial number of the USB device.
        device: A path. It may be a link, such as one in ``/dev/serial/by-id``.
        backend: As for :func:`list_serial_ports`, with its errors.
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
    ports = (
        describe_port(node, Path("/dev"))
        for node in sorted(nodes, key=lambda n: port_order(n.name))
    )
    return [port for port in ports if port is not None]


def _optional_module(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise ImportError(
            f"serial port discovery through {package} needs it installed: pip install {package}"
        ) from exc
