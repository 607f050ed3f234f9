"""Events for serial ports that are added and removed while a program runs.

The kernel announces them in netlink uevents. A message is a header, then ``KEY=value`` strings,
each ended by a zero byte. The kernel's header is ``action@path``; one that udev sends on, after its
rules have run, begins with ``libudev`` and says where the strings are (systemd,
``sd-device/device-monitor.c``).
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import anyio
import anyio.to_thread

from penstock.serial._sysfs import native_ports, port_info_for
from penstock.serial._values import PortInfo

_KOBJECT_UEVENT = 15  # linux/netlink.h
_KERNEL_GROUP, _UDEV_GROUP = 1, 2
_LARGEST_MESSAGE = 65_536
_RECEIVE_BUFFER = 1 << 20  # a hub with forty adapters announces a few hundred messages at once
_UDEV_PREFIX = b"libudev\0"
_UDEV_HEADER = struct.Struct("=8s3I")  # prefix, magic, size of the header, offset of the strings


@dataclass(frozen=True, slots=True)
class Uevent:
    """One announcement. ``action`` is add, remove, change, bind …; ``properties`` has all keys."""

    action: str
    path: str
    subsystem: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def device_name(self) -> str | None:
        """The node's name below /dev, such as ttyUSB0."""
        name = self.properties.get("DEVNAME")
        return name.removeprefix("/dev/") if name else None


def parse_uevent(message: bytes) -> Uevent | None:
    """Parse a message; returns None if it is not an uevent. Never raises."""
    if message.startswith(_UDEV_PREFIX):
        if len(message) < _UDEV_HEADER.size:
            return None
        *_, offset = _UDEV_HEADER.unpack_from(message)
        if not _UDEV_HEADER.size <= offset <= len(message):
            return None
        strings = message[offset:]
    else:
        header, _, strings = message.partition(b"\0")
        if b"@" not in header:
            return None
    properties: dict[str, str] = {}
    for line in strings.split(b"\0"):
        key, separator, value = line.decode("utf-8", "surrogateescape").partition("=")
        if separator and key:
            properties[key] = value
    try:
        return Uevent(
            properties["ACTION"], properties["DEVPATH"], properties["SUBSYSTEM"], properties
        )
    except KeyError:
        return None


class NetlinkUevents:
    """Receives the messages, from udev if it runs, else from the kernel.

    udev sends its messages when the node has its group and its links, so that a program may open
    it at once. Any process may forge a message, so each is only a hint to look.
    """

    def __init__(self) -> None:
        """Begin to listen; raises OSError if the kernel or a sandbox refuses."""
        group = _UDEV_GROUP if Path("/run/udev/control").exists() else _KERNEL_GROUP
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT
        )
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.bind((0, group))
        except BaseException:
            self._socket.close()
            raise

    async def receive(self) -> bytes:
        """Wait for a message. Raises OSError ENOBUFS if messages were lost."""
        while True:
            try:
                return self._socket.recv(_LARGEST_MESSAGE)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)

    def close(self) -> None:
        self._socket.close()


# sysfs is read at this interval, in case messages were lost or do not arrive (in a container with
# its own network). That takes a millisecond.
_RESCAN_INTERVAL_S = 5.0
_RESCAN_WITHOUT_EVENTS_S = 1.0


@dataclass(frozen=True, slots=True)
class PortEvent:
    """A port that was added or removed."""

    action: Literal["added", "removed"]
    port: PortInfo


class UeventSource(Protocol):
    """A source of the kernel's messages."""

    async def receive(self) -> bytes: ...
    def close(self) -> None: ...


def watch_serial_ports(*, existing: bool = False) -> AsyncGenerator[PortEvent, None]:
    """Yield an event for each port that is added or removed, until the iterator is closed.

    With ``existing``, the present ports come first, as ``added``. No port is reported twice. Only
    ports that :func:`list_serial_ports` would list are reported.

    The kernel announces changes (netlink uevents). sysfs is read every 5 s as well, in case an
    announcement was lost, and every second where a sandbox refuses announcements.

    The iterator has no end: close it when you leave it (``contextlib.aclosing``). Not thread-safe.
    """
    return watch_trees(existing=existing)


async def watch_trees(
    *,
    existing: bool = False,
    source: Callable[[], UeventSource] = NetlinkUevents,
    sysfs: Path = Path("/sys/class/tty"),
    dev: Path = Path("/dev"),
) -> AsyncGenerator[PortEvent, None]:
    """Do what :func:`watch_serial_ports` does, on other trees and messages than the system's."""
    watcher = _Watcher(source, sysfs, dev)
    try:
        await watcher.start()
        if existing:
            for port in list(watcher.known.values()):
                yield PortEvent("added", port)
        while True:
            for event in await watcher.next_events():
                yield event
    finally:
        watcher.close()


class _Watcher:
    def __init__(self, source: Callable[[], UeventSource], sysfs: Path, dev: Path) -> None:
        self._open_source = source
        self._source: UeventSource | None = None
        self._sysfs = sysfs
        self._dev = dev
        self.known: dict[str, PortInfo] = {}

    async def start(self) -> None:
        # Listening first: a port added between the two is then in the scan, announced, or both.
        try:
            self._source = self._open_source()
        except OSError:
            self._source = None
        self.known = await self._scan()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    async def next_events(self) -> list[PortEvent]:
        """Wait for a message or the time of the next scan; return the events, often none."""
        source = self._source
        if source is None:
            await anyio.sleep(_RESCAN_WITHOUT_EVENTS_S)
            return await self._rescan()
        message: bytes | None = None
        with anyio.move_on_after(_RESCAN_INTERVAL_S):
            try:
                message = await source.receive()
            except OSError as exc:
                if exc.errno != errno.ENOBUFS:
                    source.close()
                    self._source = None
        return await self._rescan() if message is None else await self._on_message(message)

    async def _on_message(self, message: bytes) -> list[PortEvent]:
        event = parse_uevent(message)
        if event is None or event.subsystem != "tty" or event.device_name is None:
            return []
        device = str(self._dev / event.device_name)
        if event.action == "remove":
            # Not looked up: the kernel announces it before the port has left sysfs.
            gone = self.known.pop(device, None)
            return [] if gone is None else [PortEvent("removed", gone)]
        if event.action != "add":
            return []
        port = await anyio.to_thread.run_sync(port_info_for, device, self._sysfs, self._dev)
        before = self.known.pop(device, None)
        events = []
        if port is not None:
            self.known[device] = port
        if before is not None and before != port:
            events.append(PortEvent("removed", before))
        if port is not None and before != port:
            events.append(PortEvent("added", port))
        return events

    async def _rescan(self) -> list[PortEvent]:
        before, self.known = self.known, await self._scan()
        events = [
            PortEvent("removed", port)
            for device, port in before.items()
            if self.known.get(device) != port
        ]
        events += [
            PortEvent("added", port)
            for device, port in self.known.items()
            if before.get(device) != port
        ]
        return events

    async def _scan(self) -> dict[str, PortInfo]:
        ports = await anyio.to_thread.run_sync(native_ports, self._sysfs, self._dev)
        return {port.device: port for port in ports}
