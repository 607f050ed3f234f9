"""The serial port checks of ``penstock doctor``, on trees like /sys, /dev and /proc."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from penstock.cli._doctor import serial as checks
from penstock.cli._doctor.command import Finding, Status
from penstock.cli._doctor.serial import Machine, check_serial
from penstock.serial import permission
from tests.python.serial.sysfs_tree import Sysfs


class Computer:
    def __init__(self, root: Path) -> None:
        self.sysfs = Sysfs(root)
        self.machine = Machine(root / "sys", root / "dev", root / "proc")
        self.usb = root / "sys/bus/usb/devices"
        self.usb.mkdir(parents=True)
        self.machine.proc.mkdir()

    def adapter(self, vendor: str = "0403", product: str = "6001") -> Path:
        """Add an adapter's interface that no driver is bound to."""
        device = self.sysfs.usb_device(
            "1-1", idVendor=vendor, idProduct=product, product="USB Serial"
        )
        interface = device / "1-1:1.0"
        interface.mkdir()
        (interface / "bInterfaceNumber").write_text("00\n")
        (interface / "bInterfaceClass").write_text("ff\n")
        (self.usb / "1-1").symlink_to(device)
        (self.usb / "1-1:1.0").symlink_to(interface)
        return interface

    def bind(self, interface: Path, driver: str) -> None:
        folder = self.sysfs.devices.parent / "bus/usb/drivers" / driver
        folder.mkdir(parents=True)
        (interface / "driver").symlink_to(folder)

    def port(self) -> None:
        interface = self.adapter()
        self.bind(interface, "ftdi_sio")
        self.sysfs.add("ttyUSB0", interface / "ttyUSB0")

    def process(self, pid: int, command: str, *holds: str) -> None:
        folder = self.machine.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(command + "\n")
        for number, path in enumerate(holds):
            (folder / "fd" / str(number)).symlink_to(path)

    def troubles(self) -> dict[str, Finding]:
        found = check_serial(self.machine)
        assert found[0].name == "serial"
        assert len({finding.text for finding in found}) == len(found)
        return {finding.name: finding for finding in found[1:]}


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_healthy_machine_gets_one_line(computer: Computer) -> None:
    computer.port()
    computer.process(812, "bash")
    (found,) = check_serial(computer.machine)
    assert (found.name, found.status, found.text) == ("serial", Status.FINE, "1 port: ttyUSB0")


def test_machine_without_ports_is_not_a_failure(tmp_path: Path) -> None:
    nothing = Machine(tmp_path / "sys", tmp_path / "dev", tmp_path / "proc")
    (found,) = check_serial(nothing)
    assert (found.status, found.text) == (Status.FINE, "no ports")


def test_missing_permission_is_reported_with_its_remedy(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    computer.port()
    node = computer.sysfs.dev / "ttyUSB0"
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    node.chmod(0o600)
    found = computer.troubles()["serial-permission"]
    assert found.status is Status.BROKEN
    assert f"you may not open {node}: it belongs to" in found.text
    assert "with mode 0600, so no group helps; run sudo chgrp dialout" in found.text
    node.chmod(0o660)
    if os.geteuid() == 0:
        os.chown(node, 0, grp.getgrnam("dialout").gr_gid)
    group = grp.getgrgid(os.stat(node).st_gid).gr_name
    text = computer.troubles()["serial-permission"].text
    assert f"you may not open {node}: add yourself to the group {group} (sudo usermod" in text
    monkeypatch.setattr(permission, "_is_member", lambda group: True)
    monkeypatch.setattr(permission.os, "getgroups", list)
    assert "log in again" in computer.troubles()["serial-permission"].text
    node.unlink()
    assert "start udev" in computer.troubles()["serial-permission"].text


@pytest.mark.parametrize(("value", "troubled"), [("16", True), ("1", False), ("?", False)])
def test_slow_latency_timer_is_reported(computer: Computer, value: str, troubled: bool) -> None:
    computer.port()
    (computer.sysfs.tty / "ttyUSB0/device/latency_timer").write_text(value + "\n")
    found = computer.troubles()
    assert ("serial-latency" in found) is troubled
    if troubled:
        assert "16 ms" in found["serial-latency"].text
        assert "low_latency=True" in found["serial-latency"].text


def test_process_that_holds_a_port_is_named(computer: Computer) -> None:
    computer.port()
    node = str(computer.sysfs.dev / "ttyUSB0")
    computer.process(812, "minicom", "/dev/null", node)
    computer.process(os.getpid(), "me", node)
    found = computer.troubles()["serial-holder"]
    assert found.text.startswith(f"{node} is held by process 812 (minicom)")


@pytest.mark.parametrize(
    ("driver", "cause"),
    [(None, "no driver is bound to it"), ("usbfs", "a program has unbound its driver")],
)
def test_adapter_without_a_port_is_reported_with_its_driver(
    computer: Computer, driver: str | None, cause: str
) -> None:
    interface = computer.adapter("1a86", "7523")
    if driver is not None:
        computer.bind(interface, driver)
    found = computer.troubles()["serial-driver"]
    assert found.status is Status.BROKEN
    assert "USB Serial (1a86:7523, at 1-1) has no port" in found.text
    assert cause in found.text
    assert "sudo modprobe ch341" in found.text


def test_control_characters_in_an_adapters_name_are_escaped(computer: Computer) -> None:
    interface = computer.adapter("1a86", "7523")
    (interface.resolve().parent / "product").write_text("Serial\x1b[2J\n")
    assert r"Serial\x1b[2J (1a86:7523" in computer.troubles()["serial-driver"].text


def test_modem_without_a_driver_is_found_by_its_class(computer: Computer) -> None:
    interface = computer.adapter("2341", "0043")
    assert computer.troubles() == {}
    (interface / "bInterfaceClass").write_text("02\n")
    (interface / "bInterfaceSubClass").write_text("02\n")
    assert "sudo modprobe cdc_acm" in computer.troubles()["serial-driver"].text


def test_modem_manager_is_reported_if_it_can_interfere(computer: Computer) -> None:
    computer.process(77, "ModemManager")
    assert computer.troubles() == {}
    computer.port()
    found = computer.troubles()["serial-modemmanager"]
    assert found.status is Status.LESS
    assert "process 77" in found.text
    assert "systemctl disable" in found.text


def test_brltty_is_reported_if_it_claims_an_adapter(computer: Computer) -> None:
    computer.process(78, "brltty")
    assert computer.troubles() == {}
    computer.bind(computer.adapter("1a86", "7523"), "usbfs")
    found = computer.troubles()
    assert "apt remove brltty" in found["serial-brltty"].text
    assert "1a86:7523" in found["serial-brltty"].text
    assert "serial-driver" in found
