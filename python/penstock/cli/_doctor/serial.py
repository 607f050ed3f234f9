"""Serial ports: whether they can be opened, and what prevents it.

Reads /sys, /dev and /proc. Opens no port, because that could reset a device.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.cli._doctor.command import Finding, Status
from penstock.cli._errors import harmless
from penstock.serial import PortInfo
from penstock.serial.discovery import native_ports
from penstock.serial.permission import permission_remedy

# Adapters whose interface class does not identify them as serial, and the driver of each.
_DRIVERS = {
    0x0403: "ftdi_sio",
    0x10C4: "cp210x",
    0x1A86: "ch341",
    0x067B: "pl2303",
    0x04E2: "xr_serial",
    0x9710: "mos7840",
}
_CDC_CONTROL_CLASS, _CDC_ACM_SUBCLASS = "02", "02"
_BRLTTY_TAKES = {(0x1A86, 0x7523), (0x10C4, 0xEA60), (0x0403, 0x6001)}


@dataclass(frozen=True)
class Machine:
    """The root folders that the checks read: of the real machine, or of a test's tree."""

    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    proc: Path = Path("/proc")

    def ports(self) -> list[PortInfo]:
        return native_ports(self.sys / "class/tty", self.dev)

    def processes(self) -> Iterator[Path]:
        """Yield the /proc folders of the running processes."""
        try:
            entries = list(self.proc.iterdir())
        except OSError:
            return iter(())
        return (entry for entry in entries if entry.name.isdigit())

    def running(self, command: str) -> int | None:
        """Return the process id of ``command``, or None if it is not running."""
        for process in self.processes():
            if _text(process / "comm") == command:
                return int(process.name)
        return None


def check_serial(machine: Machine | None = None) -> list[Finding]:
    """List the ports, then one finding for each problem."""
    machine = Machine() if machine is None else machine
    ports = machine.ports()
    names = ", ".join(port.name or port.device for port in ports)
    summary = f"{len(ports)} port{'s' * (len(ports) > 1)}: {names}" if ports else "no ports"
    found = [Finding("serial", Status.FINE, summary)]
    for port in ports:
        found += _permission(port)
        found += _latency(port, machine)
    found += _holders(ports, machine)
    found += _missing_drivers(machine)
    found += _modem_manager(ports, machine)
    found += _brltty(machine)
    return found


def _permission(port: PortInfo) -> Iterator[Finding]:
    if os.access(port.device, os.R_OK | os.W_OK):
        return
    if not os.path.exists(port.device):
        yield Finding(
            "serial-permission",
            Status.BROKEN,
            f"{port.device} is known to the kernel but has no device node; start udev, or in a "
            f"container pass the device in (--device {port.device})",
        )
        return
    remedy = permission_remedy(port.device)
    yield Finding("serial-permission", Status.BROKEN, f"you may not open {port.device}: {remedy}")


def _latency(port: PortInfo, machine: Machine) -> Iterator[Finding]:
    file = machine.sys / "class/tty" / (port.name or "") / "device/latency_timer"
    text = _text(file)
    if text is not None and text.isdigit() and int(text) > 1:
        yield Finding(
            "serial-latency",
            Status.LESS,
            f"{port.device} buffers received bytes for up to {text} ms; open it with "
            "SerialConfig(low_latency=True)",
        )


def _holders(ports: list[PortInfo], machine: Machine) -> Iterator[Finding]:
    devices = {port.device for port in ports}
    for process in machine.processes():
        if int(process.name) == os.getpid():
            continue
        try:
            links = {os.readlink(link) for link in (process / "fd").iterdir()}
        except OSError:
            continue  # another user's process, or it has exited
        for device in sorted(links & devices):
            yield Finding(
                "serial-holder",
                Status.LESS,
                f"{device} is held by process {process.name} ({_text(process / 'comm')}); end it "
                "before you open the port",
            )


def _missing_drivers(machine: Machine) -> Iterator[Finding]:
    for interface in _entries(machine.sys / "bus/usb/devices"):
        if ":" not in interface.name:
            continue  # a device, not one of its interfaces
        device = interface.resolve().parent
        vendor = _number(device / "idVendor")
        driver = _DRIVERS.get(vendor or 0)
        is_acm = (
            _text(interface / "bInterfaceClass") == _CDC_CONTROL_CLASS
            and _text(interface / "bInterfaceSubClass") == _CDC_ACM_SUBCLASS
        )
        bound = (interface / "driver").resolve().name if (interface / "driver").exists() else None
        if (driver or is_acm) and bound in (None, "usbfs"):
            name = harmless(_text(device / "product") or "a USB serial adapter")
            ids = f"{vendor or 0:04x}:{_number(device / 'idProduct') or 0:04x}"
            module = driver or "cdc_acm"
            cause = "a program has unbound its driver" if bound else "no driver is bound to it"
            yield Finding(
                "serial-driver",
                Status.BROKEN,
                f"{name} ({ids}, at {device.name}) has no port, because {cause}; "
                f"sudo modprobe {module}, then plug it in again",
            )


def _modem_manager(ports: list[PortInfo], machine: Machine) -> Iterator[Finding]:
    pid = machine.running("ModemManager")
    if pid is not None and any(port.vid is not None for port in ports):
        yield Finding(
            "serial-modemmanager",
            Status.LESS,
            f"ModemManager runs (process {pid}) and may send AT commands to a new adapter for half "
            "a minute; sudo systemctl disable --now ModemManager, or exclude your adapter with the "
            'udev rule ENV{ID_MM_DEVICE_IGNORE}="1"',
        )


def _brltty(machine: Machine) -> Iterator[Finding]:
    pid = machine.running("brltty")
    if pid is None:
        return
    for device in _entries(machine.sys / "bus/usb/devices"):
        vendor, product = _number(device / "idVendor"), _number(device / "idProduct")
        if vendor is not None and product is not None and (vendor, product) in _BRLTTY_TAKES:
            yield Finding(
                "serial-brltty",
                Status.LESS,
                f"brltty runs (process {pid}) and claims adapters like {vendor:04x}:{product:04x} "
                "as braille displays; if you have none: sudo apt remove brltty",
            )
            return


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _number(file: Path) -> int | None:
    try:
        return int(_text(file) or "", 16)
    except ValueError:
        return None
