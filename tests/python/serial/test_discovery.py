"""Discovery from sysfs, on a tree like the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.serial import (
    PortInfo,
    SerialConfig,
    canonical_port_name,
    discovery,
    find_serial_port,
    list_serial_ports,
    open_serial_port,
)
from penstock.serial._sysfs import native_ports, port_info_for
from tests.python.serial.pty_peer import PtyPeer
from tests.python.serial.sysfs_tree import Sysfs


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


@pytest.fixture
def ftdi(sysfs: Sysfs) -> Sysfs:
    device = sysfs.usb_device(
        "1-1.4",
        idVendor="0403",
        idProduct="6001",
        serial="A5XK3RJT",
        manufacturer="FTDI",
        product="FT232R USB UART",
    )
    interface = device / "1-1.4:1.0"
    interface.mkdir()
    (interface / "bInterfaceNumber").write_text("00\n")
    (interface / "interface").write_text("Port A\n")
    sysfs.add("ttyUSB0", interface / "ttyUSB0")
    return sysfs


def test_usb_adapter_is_described_with_its_interface(ftdi: Sysfs) -> None:
    assert ftdi.ports() == [
        PortInfo(
            device=str(ftdi.dev / "ttyUSB0"),
            name="ttyUSB0",
            description="FT232R USB UART - Port A",
            hwid="USB VID:PID=0403:6001 SER=A5XK3RJT LOCATION=1-1.4",
            vid=0x0403,
            pid=0x6001,
            serial_number="A5XK3RJT",
            manufacturer="FTDI",
            product="FT232R USB UART",
            location="1-1.4",
            interface="Port A",
        )
    ]


def test_modem_tty_is_a_child_of_its_usb_interface(sysfs: Sysfs) -> None:
    interface = sysfs.usb_device("2-1", idVendor="2341", idProduct="0043") / "2-1:1.0"
    interface.mkdir()
    (interface / "bInterfaceNumber").write_text("00\n")
    sysfs.add("ttyACM0", interface)
    (port,) = sysfs.ports()
    assert (port.vid, port.pid, port.interface, port.serial_number) == (0x2341, 0x43, None, None)
    assert port.hwid == "USB VID:PID=2341:0043 LOCATION=2-1"


def test_absent_and_virtual_ttys_are_not_listed(sysfs: Sysfs) -> None:
    sysfs.add("ttyS0", sysfs.devices / "pnp0/00:05", type="4")
    sysfs.add("ttyS1", sysfs.devices / "platform/serial8250", type="0")
    sysfs.add("tty1", sysfs.devices / "virtual/vtconsole")
    (sysfs.tty / "console").mkdir()  # no device at all
    assert [port.name for port in sysfs.ports()] == ["ttyS0"]


def test_platform_uarts_are_listed(sysfs: Sysfs) -> None:
    sysfs.add("ttyAMA0", sysfs.devices / "platform/soc/fe201000.serial", type="32")
    (port,) = sysfs.ports()
    assert (port.device, port.vid) == (str(sysfs.dev / "ttyAMA0"), None)


def test_uart_is_named_by_its_bus_and_not_by_the_serial_core(sysfs: Sysfs) -> None:
    for bus in ("pnp", "serial-base"):
        (sysfs.devices.parent / "bus" / bus).mkdir(parents=True)
    uart = sysfs.devices / "pnp0/00:05"
    sysfs.add("ttyS0", uart / "00:05:0" / "00:05:0.0", type="4")
    (uart / "subsystem").symlink_to(sysfs.devices.parent / "bus/pnp")
    for below in (uart / "00:05:0", uart / "00:05:0" / "00:05:0.0"):
        (below / "subsystem").symlink_to(sysfs.devices.parent / "bus/serial-base")
    (port,) = sysfs.ports()
    assert port.hwid == "pnp"


def test_ports_are_listed_in_order_of_their_numbers(sysfs: Sysfs) -> None:
    for number in (10, 2, 0):
        sysfs.add(f"ttyS{number}", sysfs.devices / f"pnp/{number}", type="4")
    assert [port.name for port in sysfs.ports()] == ["ttyS0", "ttyS2", "ttyS10"]


@pytest.mark.parametrize("broken", ["", "zz", "0x"])
def test_unreadable_attribute_is_reported_as_unknown(sysfs: Sysfs, broken: str) -> None:
    interface = sysfs.usb_device("1-2", idVendor=broken, idProduct="6001") / "1-2:1.0"
    sysfs.add("ttyACM1", interface)
    (port,) = sysfs.ports()
    assert (port.vid, port.pid) == (None, 0x6001)


def test_unplugged_port_is_not_listed(sysfs: Sysfs) -> None:
    (sysfs.tty / "ttyUSB5").symlink_to(sysfs.devices / "gone")
    assert sysfs.ports() == []


@pytest.mark.parametrize("path", ["", "/", "\0", "a" * 5000, "/dev/ttyNONE/"])
def test_path_that_is_not_a_port_has_no_details(sysfs: Sysfs, path: str) -> None:
    assert port_info_for(path, sysfs.tty, sysfs.devices) is None


def test_no_ports_are_listed_without_sysfs(tmp_path: Path) -> None:
    assert native_ports(tmp_path / "none", tmp_path) == []


def test_by_id_link_resolves_to_the_ports_details(ftdi: Sysfs, tmp_path: Path) -> None:
    link = tmp_path / "usb-FTDI_FT232R_USB_UART_A5XK3RJT-if00-port0"
    link.symlink_to(ftdi.dev / "ttyUSB0")
    info = port_info_for(str(link), ftdi.tty, ftdi.dev)
    assert info is not None
    assert info.serial_number == "A5XK3RJT"


def test_port_has_one_canonical_name(tmp_path: Path) -> None:
    node, link = tmp_path / "ttyUSB0", tmp_path / "by-id"
    node.touch()
    link.symlink_to(node)
    assert canonical_port_name(str(link)) == str(node.resolve())
    assert canonical_port_name("/dev/ttyUSB97") == "/dev/ttyUSB97"
    assert canonical_port_name(str(link), platform="linux") == str(node.resolve())
    assert canonical_port_name("bad\0name") == "bad\0name"


@pytest.mark.anyio
async def test_find_requires_every_condition(ftdi: Sysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = ftdi.ports()
    monkeypatch.setattr(discovery, "native_ports", lambda: ports)
    node = str(ftdi.dev / "ttyUSB0")
    link = ftdi.dev / "by-id"
    link.symlink_to(node)
    found = await find_serial_port(vid=0x0403, serial_number="A5XK3RJT", device=str(link))
    assert found is not None
    assert found.device == node
    assert await find_serial_port(vid=0x0403, pid=0x6015) is None
    assert await find_serial_port(device="/dev/null") is None


@pytest.mark.anyio
async def test_listing_works_on_this_machine() -> None:
    names = [port.name for port in await list_serial_ports()]
    assert len(names) == len(set(names))
    from_pyserial = {port.device for port in await list_serial_ports(backend="pyserial")}
    assert {port.device for port in await list_serial_ports()} <= from_pyserial


@pytest.mark.anyio
async def test_missing_or_unknown_source_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyudev", None)
    with pytest.raises(ImportError, match="pip install pyudev"):
        await list_serial_ports(backend="pyudev")
    wrong: Any = "lsusb"
    with pytest.raises(ValueError, match="one of native, pyserial, pyudev, not 'lsusb'"):
        await list_serial_ports(backend=wrong)


@pytest.mark.anyio
async def test_pty_has_no_details(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, SerialConfig()) as port:
        assert port.port_info is None
