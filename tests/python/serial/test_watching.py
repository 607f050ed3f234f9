"""Plugging and unplugging: injected kernel messages over trees like /sys and /dev."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import PortEvent, _watching
from penstock.serial._watching import NetlinkUevents, Uevent, parse_uevent, watch_trees
from tests.python.serial.sysfs_tree import Sysfs

ADD = (
    b"add@/devices/usb1/1-1/ttyUSB0/tty/ttyUSB0\0ACTION=add\0"
    b"DEVPATH=/devices/usb1/1-1/ttyUSB0/tty/ttyUSB0\0SUBSYSTEM=tty\0MAJOR=188\0MINOR=0\0"
    b"DEVNAME=ttyUSB0\0SEQNUM=4211\0"
)


def message(action: str, name: str, subsystem: str = "tty") -> bytes:
    strings = f"ACTION={action}\0DEVPATH=/d/{name}\0SUBSYSTEM={subsystem}\0DEVNAME={name}\0"
    return f"{action}@/d/{name}\0{strings}".encode()


def from_udev(strings: bytes, offset: int = 40) -> bytes:
    header = struct.pack("=8s3I", b"libudev\0", 0xCAFEFEED, 40, offset)
    return header.ljust(40, b"\0") + strings


# ---- the messages --------------------------------------------------------------------------------


def test_kernel_message_is_parsed() -> None:
    event = parse_uevent(ADD)
    assert event is not None
    assert (event.action, event.subsystem, event.device_name) == ("add", "tty", "ttyUSB0")
    assert event.path == "/devices/usb1/1-1/ttyUSB0/tty/ttyUSB0"
    assert event.properties["MAJOR"] == "188"


def test_udev_message_is_parsed() -> None:
    strings = b"ACTION=remove\0DEVPATH=/d\0SUBSYSTEM=tty\0DEVNAME=/dev/ttyACM3\0"
    event = parse_uevent(from_udev(strings))
    assert event is not None
    assert (event.action, event.device_name) == ("remove", "ttyACM3")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"\0",
        b"add@/x",
        b"hello\0ACTION=add\0",
        b"libudev\0",
        from_udev(b"", offset=4),
        from_udev(b"", offset=4_000_000),
        b"add@/x\0ACTION=add\0DEVPATH\0=x\0",
    ],
)
def test_invalid_message_is_none(nonsense: bytes) -> None:
    assert parse_uevent(nonsense) is None


@given(
    st.one_of(
        st.binary(),
        st.binary().map(lambda tail: b"add@" + tail),
        st.binary().map(from_udev),
        st.builds(lambda data, n: data[:n], st.just(ADD), st.integers(0, len(ADD))),
    )
)
def test_any_bytes_are_parsed_or_none(data: bytes) -> None:
    event = parse_uevent(data)
    assert event is None or isinstance(event, Uevent)


words = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(words, words.filter(lambda word: "=" not in word)))
def test_every_property_is_parsed(properties: dict[str, str]) -> None:
    properties = {**properties, "ACTION": "add", "DEVPATH": "/d", "SUBSYSTEM": "tty"}
    strings = "".join(f"{key}={value}\0" for key, value in properties.items()).encode()
    event = parse_uevent(b"add@/d\0" + strings)
    assert event is not None
    assert event.properties == properties


# ---- the watch -----------------------------------------------------------------------------------


class Injected:
    """A source of messages for a test; an errno instead of a message fails the call."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[bytes | int](100)
        self.closed = False

    def say(self, *messages: bytes | int) -> None:
        for item in messages:
            self._send.send_nowait(item)

    async def receive(self) -> bytes:
        item = await self._receive.receive()
        if isinstance(item, int):
            raise OSError(item, os.strerror(item))
        return item

    def close(self) -> None:
        self.closed = True
        self._send.close()
        self._receive.close()


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def plug_in(sysfs: Sysfs, name: str, serial: str = "A1") -> None:
    location = f"1-{serial}"
    device = sysfs.usb_device(location, idVendor="0403", idProduct="6001", serial=serial)
    (device / "bInterfaceNumber").write_text("00\n")
    sysfs.add(name, device / name)


def watch(
    sysfs: Sysfs, source: Injected, *, existing: bool = False
) -> AsyncGenerator[PortEvent, None]:
    return watch_trees(existing=existing, source=lambda: source, sysfs=sysfs.tty, dev=sysfs.dev)


def summary_of(event: PortEvent) -> tuple[str, str | None, str | None]:
    return event.action, event.port.name, event.port.serial_number


@pytest.mark.anyio
async def test_added_and_removed_ports_are_reported(sysfs: Sysfs) -> None:
    source = Injected()
    plug_in(sysfs, "ttyUSB0")
    async with aclosing(watch(sysfs, source, existing=True)) as events:
        assert summary_of(await anext(events)) == ("added", "ttyUSB0", "A1")
        plug_in(sysfs, "ttyUSB1", "B2")
        source.say(message("add", "ttyUSB1"))
        assert summary_of(await anext(events)) == ("added", "ttyUSB1", "B2")
        # The kernel announces a removal before the port has left sysfs.
        source.say(message("remove", "ttyUSB0"))
        assert summary_of(await anext(events)) == ("removed", "ttyUSB0", "A1")
    assert source.closed


@pytest.mark.anyio
async def test_without_existing_only_changes_are_reported(sysfs: Sysfs) -> None:
    source = Injected()
    plug_in(sysfs, "ttyUSB0")
    plug_in(sysfs, "ttyUSB1", "B2")
    source.say(
        message("add", "ttyUSB0"),  # already known
        message("change", "ttyUSB0"),
        message("remove", "ttyUSB9"),  # never known
        message("add", "sda", "block"),
        message("add", "tty7"),  # no hardware behind it
        b"garbage",
        message("remove", "ttyUSB1"),
    )
    async with aclosing(watch(sysfs, source)) as events:
        assert summary_of(await anext(events)) == ("removed", "ttyUSB1", "B2")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("ttyUSB0", message("add", "ttyUSB0"), id="the name that a lost removal freed"),
        pytest.param("ttyUSB1", errno.ENOBUFS, id="a scan after messages were lost"),
    ],
)
async def test_a_device_that_comes_while_messages_are_lost_is_another_port(
    sysfs: Sysfs, name: str, said: bytes | int
) -> None:
    source = Injected()
    plug_in(sysfs, "ttyUSB0")
    async with aclosing(watch(sysfs, source, existing=True)) as events:
        await anext(events)
        sysfs.remove("ttyUSB0")
        plug_in(sysfs, name, "B2")
        source.say(said)
        assert summary_of(await anext(events)) == ("removed", "ttyUSB0", "A1")
        assert summary_of(await anext(events)) == ("added", name, "B2")


@pytest.mark.anyio
@pytest.mark.parametrize("trouble", ["refused", "fails later", "silent"])
async def test_ports_are_found_without_messages(
    sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(_watching, "_RESCAN_INTERVAL_S", 0.01)
    monkeypatch.setattr(_watching, "_RESCAN_WITHOUT_EVENTS_S", 0.01)
    source = Injected()

    def open_source() -> Injected:
        if trouble == "refused":
            raise PermissionError
        return source

    if trouble == "fails later":
        source.say(errno.EIO)
    plug_in(sysfs, "ttyUSB0")
    watched = watch_trees(existing=True, source=open_source, sysfs=sysfs.tty, dev=sysfs.dev)
    async with aclosing(watched) as events:
        assert summary_of(await anext(events)) == ("added", "ttyUSB0", "A1")
        plug_in(sysfs, "ttyUSB1", "B2")
        with anyio.fail_after(30):
            assert summary_of(await anext(events)) == ("added", "ttyUSB1", "B2")
    source.close()


# ---- over a netlink socket -----------------------------------------------------------------------


def announce(text: bytes) -> None:
    """Send a message to the kernel's or udev's netlink group; skip if that is not allowed."""
    group = 1
    if Path("/run/udev/control").exists():
        group = 2
        text = from_udev(
            text.partition(b"\0")[2]
        )  # its magic is wrong, so real udev clients drop it
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as sender:
        try:
            sender.sendto(text, (0, group))
        except OSError as exc:
            pytest.skip(f"no message can be sent over netlink here: {exc}")


@pytest.mark.anyio
async def test_netlink_message_is_received_completely() -> None:
    try:
        source = NetlinkUevents()
    except OSError as exc:
        pytest.skip(f"no netlink uevents here: {exc}")
    try:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await source.receive()
        text = message("change", f"ttyPENSTOCK{os.getpid()}")  # after a cancelled receive
        announce(text)
        with anyio.fail_after(60):
            while True:
                event = parse_uevent(await source.receive())  # other messages may arrive in between
                if event is not None and event == parse_uevent(text):
                    break
    finally:
        source.close()


@pytest.mark.anyio
async def test_port_announced_over_netlink_is_reported(
    sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watching, "_RESCAN_INTERVAL_S", 3600)  # only the message can report it
    monkeypatch.setattr(_watching, "_RESCAN_WITHOUT_EVENTS_S", 3600)
    name = f"ttyUSB{os.getpid()}"
    plug_in(sysfs, "ttyUSB0")
    async with aclosing(watch_trees(existing=True, sysfs=sysfs.tty, dev=sysfs.dev)) as events:
        assert summary_of(await anext(events)) == ("added", "ttyUSB0", "A1")
        plug_in(sysfs, name, "B2")
        announce(message("add", name))
        with anyio.fail_after(60):
            assert summary_of(await anext(events)) == ("added", name, "B2")
        announce(message("remove", name))
        with anyio.fail_after(60):
            assert summary_of(await anext(events)) == ("removed", name, "B2")


@pytest.mark.anyio
async def test_kernel_announcement_is_received() -> None:
    # Writing to a device's "uevent" file makes the kernel announce it again; only root may do it.
    # A second socket checks whether the messages reach this network namespace.
    trigger = Path("/sys/class/tty/ptmx/uevent")
    if not os.access(trigger, os.W_OK) or Path("/run/udev/control").exists():
        pytest.skip("no kernel message can be triggered here")
    source = NetlinkUevents()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as witness:
            witness.bind((0, 1))
            witness.settimeout(1)
            try:
                trigger.write_text("change")
                while b"DEVNAME=ptmx" not in witness.recv(65_536):
                    pass
            except OSError as exc:
                pytest.skip(f"the kernel's messages do not arrive here: {exc}")
        with anyio.fail_after(60):
            while True:
                event = parse_uevent(await source.receive())
                if event is not None and event.device_name == "ptmx":
                    assert (event.action, event.subsystem) == ("change", "tty")
                    return
    finally:
        source.close()
