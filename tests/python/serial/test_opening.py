"""Opening: refusals and their errors, and the settings that a port finds and restores."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import subprocess
import sys
import termios
import tty
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.file import FileStreamAttribute

from penstock.serial import (
    ConfigurationError,
    FlowControl,
    Parity,
    PortNotFoundError,
    SerialConfig,
    SerialConnectable,
    SerialPort,
    SerialStreamAttribute,
    StopBits,
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial import sync as blocking
from penstock.serial._devices.open import open_device
from penstock.serial._tty import device, system_calls
from penstock.serial.testing import EmulatedDriver
from tests.python.open_descriptors import open_descriptors
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio


async def test_missing_port_raises_port_not_found() -> None:
    with pytest.raises(PortNotFoundError, match=r"^/dev/ttyUSB97 does not exist; check") as caught:
        await open_serial_port("/dev/ttyUSB97")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.filename == "/dev/ttyUSB97"


@pytest.mark.parametrize("kind", ["device", "file", "folder", "fifo"])
async def test_path_that_is_not_a_tty_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    if kind == "device":
        path = Path("/dev/null")
    elif kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    before = open_descriptors()
    with pytest.raises(UnsupportedFeatureError, match=r"is not a serial port \(not a tty\)"):
        await open_serial_port(str(path))
    assert open_descriptors() <= before


NO_PERMISSION = """
import os, sys, anyio
from penstock.serial import PortPermissionError, PortBusyError, open_serial_port

async def main():
    async with await open_serial_port(sys.argv[1]):  # imports every module while it is readable
        pass
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        await open_serial_port(sys.argv[1])
    except PermissionError as error:
        assert isinstance(error, PortPermissionError), type(error)
        assert not isinstance(error, PortBusyError)
        print(error)

anyio.run(main)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
@pytest.mark.parametrize(
    ("group", "mode", "remedy"),
    [
        ("dialout", 0o660, "add yourself to the group dialout (sudo usermod -aG dialout $USER)"),
        ("dialout", 0o600, "belongs to root:dialout with mode 0600, so no group helps; run sudo"),
        ("root", 0o600, "belongs to root:root with mode 0600, so no group helps; run sudo chgrp"),
        ("root", 0o660, "belongs to root:root with mode 0660, so no group helps; run sudo chgrp"),
    ],
)
def test_missing_permission_is_reported_with_a_remedy(
    peer: PtyPeer, group: str, mode: int, remedy: str
) -> None:
    os.chown(peer.path, 0, grp.getgrnam(group).gr_gid)
    os.chmod(peer.path, mode)
    done = subprocess.run(
        [sys.executable, "-c", NO_PERMISSION, peer.path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"no permission to open {peer.path}: ")
    assert remedy in done.stdout


@pytest.mark.parametrize("name", [b"/dev/ttyUSB0", None, 7])
async def test_port_name_of_another_type_is_refused_in_one_sentence(name: Any) -> None:
    expected = "decode it: os.fsdecode" if isinstance(name, bytes) else "is named by a path such as"
    with pytest.raises(TypeError, match=expected):
        await open_serial_port(name)
    with pytest.raises(TypeError, match=expected):
        blocking.open_serial_port(name)


async def test_value_that_is_not_a_configuration_is_refused() -> None:
    wrong: Any = 9600
    with pytest.raises(ConfigurationError, match="must be a SerialConfig, not 9600"):
        await open_serial_port("/dev/ttyS0", wrong)


async def test_tty_is_raw_whatever_its_previous_mode(peer: PtyPeer) -> None:
    peer.make_settings_odd()
    async with await open_serial_port(peer.path):
        settings = peer.settings()
    assert settings[tty.IFLAG] == settings[tty.OFLAG] == settings[tty.LFLAG] == 0
    assert settings[tty.CC][termios.VMIN] == 1
    assert settings[tty.CFLAG] & (termios.CREAD | termios.CLOCAL) == termios.CREAD | termios.CLOCAL


async def test_every_byte_value_passes_unchanged(peer: PtyPeer) -> None:
    peer.make_settings_odd()
    everything = bytes(range(256))
    async with await open_serial_port(peer.path) as port:
        peer.write(everything)
        received = b""
        while len(received) < 256:
            received += await port.receive()
        await port.send(everything)
        assert await peer.read(256) == everything
    assert received == everything


@pytest.mark.parametrize("baudrate", [1200, 115_200, 250_000, 12_345, 3_686_400])
async def test_any_baudrate_reaches_the_driver(peer: PtyPeer, baudrate: int) -> None:
    async with await open_serial_port(peer.path, SerialConfig(baudrate=baudrate)) as port:
        assert port.actual_baudrate == baudrate


async def test_close_restores_the_ttys_settings(peer: PtyPeer) -> None:
    found = peer.make_settings_odd()
    async with await open_serial_port(peer.path, SerialConfig(baudrate=9600)):
        assert peer.settings() != found
    assert peer.settings() == found


async def test_failed_open_leaves_nothing_behind(
    peer: PtyPeer, driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pty keeps 8 bits without parity. Treated as a real line, it is a driver that drops a
    # setting and reports success.
    monkeypatch.setattr(device, "is_pty", lambda fd: False)
    found, before = peer.settings(), open_descriptors()
    with pytest.raises(UnsupportedConfigurationError, match="does not support the parity"):
        await open_serial_port(peer.path, SerialConfig(parity=Parity.EVEN))
    assert peer.settings()[tty.ISPEED] == found[tty.ISPEED]
    assert peer.settings()[tty.LFLAG] == found[tty.LFLAG]
    assert not peer.is_exclusive()
    assert open_descriptors() <= before


async def test_open_in_a_cancelled_scope_opens_nothing(peer: PtyPeer) -> None:
    found, before = peer.settings(), open_descriptors()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await open_serial_port(peer.path)
    assert scope.cancelled_caught
    assert peer.settings() == found
    assert open_descriptors() <= before
    async with await open_serial_port(peer.path):
        pass


async def test_port_opened_for_a_cancelled_task_is_closed(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens when asyncio cancels a task while the worker thread opens the port."""
    device_of_nobody, _ = open_device(peer.path, SerialConfig())
    assert peer.is_exclusive()
    del device_of_nobody
    assert not peer.is_exclusive()
    assert peer.settings() == peer.found_as


async def test_link_to_a_port_can_be_opened(peer: PtyPeer, tmp_path: Path) -> None:
    link = tmp_path / "usb-FTDI_FT232R-if00-port0"
    link.symlink_to(peer.path)
    async with await open_serial_port(str(link)) as port:
        assert port.path == str(link)
        peer.write(b"x")
        assert await port.receive() == b"x"


async def test_port_can_be_opened_with_config_fields(peer: PtyPeer) -> None:
    async with await SerialPort.open(peer.path, baudrate=19_200) as port:
        assert port.config == SerialConfig(baudrate=19_200)


async def test_connectable_opens_its_port(peer: PtyPeer) -> None:
    connectable = SerialConnectable(path=peer.path, config=SerialConfig(baudrate=2400))
    async with await connectable.connect() as port:
        assert port.config.baudrate == 2400


@pytest.mark.parametrize("kind", [SerialConnectable, blocking.SerialConnectable])
def test_a_connectable_without_settings_has_the_default_ones(kind: Any) -> None:
    assert kind(path="/dev/ttyUSB0").config == SerialConfig()
    assert kind(path="/dev/ttyUSB0", config=None) == kind(path="/dev/ttyUSB0")


async def test_typed_attributes_give_path_settings_and_descriptor(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        assert port.extra(FileStreamAttribute.path) == Path(peer.path)
        assert os.ttyname(port.extra(FileStreamAttribute.fileno)) == peer.path
        assert port.extra(SerialStreamAttribute.config) is port.config
        assert port.extra(SerialStreamAttribute.capabilities) is port.capabilities
        assert port.extra(SerialStreamAttribute.port_info, None) is None
    with pytest.raises(anyio.TypedAttributeLookupError):
        port.extra(FileStreamAttribute.fileno)


async def test_capabilities_are_queried_from_the_device(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        assert port.capabilities.modem_lines == "unsupported"
        assert port.capabilities.rs485 == "unsupported"
        assert port.capabilities.custom_baudrate == "supported"


def test_opening_and_closing_ask_the_driver_for_nothing_else(peer: PtyPeer) -> None:
    asked: list[int] = []
    with system_calls.replace_driver(lambda fd, request, argument: asked.append(request)):
        port = blocking.SerialPort.open(peer.path)
        while_opening = asked.copy()
        assert port.capabilities.modem_lines == "unsupported"
        asked.clear()
        port.close()
    assert while_opening == [
        *(system_calls.TCGETS2, termios.TIOCEXCL),
        *(system_calls.TCSETS2, system_calls.TCGETS2),
    ]
    assert asked == [
        *(termios.TIOCOUTQ, termios.TIOCOUTQ),
        *(system_calls.TCSETS2, termios.TIOCNXCL),
    ]


def test_a_blocking_port_that_never_waits_has_one_descriptor(peer: PtyPeer) -> None:
    before = open_descriptors()
    with blocking.SerialPort.open(peer.path) as port:
        port.send(b"x")
        assert len(open_descriptors() - before) == 1


async def test_capabilities_are_known_after_closing(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        pass
    assert port.capabilities.modem_lines == "supported"


def test_capabilities_of_a_closed_pty_are_known(peer: PtyPeer) -> None:
    with blocking.SerialPort.open(peer.path) as port:
        pass
    assert port.capabilities.modem_lines == "unsupported"
    assert port.port_info is None


async def test_capabilities_of_a_full_uart(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        assert port.capabilities.modem_lines == "supported"
        assert port.capabilities.low_latency == "supported"
        assert port.capabilities.rs485 == "supported"


CONFIGS = (
    SerialConfig(),
    SerialConfig(baudrate=12_345, hangup_on_close=False),
    SerialConfig(baudrate=9600, stop_bits=StopBits.TWO, flow_control=FlowControl(xon_xoff=True)),
    SerialConfig(exclusive=False, mark_errors=True),
)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_one_native_call_opens_as_the_single_steps_do(
    peer: PtyPeer, config: SerialConfig
) -> None:
    peer.make_settings_odd()

    def seen() -> tuple[object, ...]:
        with blocking.open_serial_port(peer.path, config) as port:
            fd = port.extra(FileStreamAttribute.fileno)
            return (
                *(system_calls.get_settings(fd), port.actual_baudrate, peer.is_exclusive()),
                *(os.get_blocking(fd), os.get_inheritable(fd), fcntl.fcntl(fd, fcntl.F_GETFL)),
            )

    with system_calls.replace_driver(lambda fd, request, argument: None):
        by_steps = seen()
    assert seen() == by_steps


@pytest.mark.skipif(system_calls.native_open is None, reason="the extension is not built")
def test_the_native_call_leaves_nothing_where_it_does_not_open(
    peer: PtyPeer, tmp_path: Path
) -> None:
    opening = system_calls.native_open
    assert opening is not None
    found = peer.make_settings_odd()
    before = open_descriptors()
    assert opening(str(tmp_path), 0, 0, 9600, True) is None
    assert opening("/dev/null", 0, 0, 9600, True) is None
    with open(peer.path, "rb", buffering=0) as holder:
        fcntl.flock(holder, fcntl.LOCK_SH)
        assert opening(peer.path, 0, 0, 9600, True) is None
        assert not peer.is_exclusive()
        opened = opening(peer.path, 0, termios.CS8 | termios.CREAD, 9600, False)
        assert opened is not None
        assert system_calls.native_close is not None
        assert system_calls.native_close(opened[0], opened[2], False) == ()
        # Another one has the lock: its settings are left to it.
        assert peer.settings() != found
    assert open_descriptors() == before


@pytest.mark.skipif(system_calls.native_close is None, reason="the extension is not built")
def test_closing_what_is_gone_reports_each_step_that_failed(peer: PtyPeer) -> None:
    assert system_calls.native_open is not None
    assert system_calls.native_close is not None
    opened = system_calls.native_open(peer.path, 0, termios.CS8 | termios.CREAD, 9600, True)
    assert opened is not None
    peer.unplug()
    assert system_calls.native_close(opened[0], opened[2], True) == (errno.EIO,) * 3
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
    with pytest.raises(ValueError, match="must have"):
        system_calls.native_close(-1, b"", True)
