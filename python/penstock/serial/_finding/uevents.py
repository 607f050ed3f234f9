"""The kernel's announcements of added and removed devices: netlink uevents.

A message is a header, then ``KEY=value`` strings, each ended by a zero byte. The kernel's header
is ``action@path``; one that udev sends on, after its rules have run, begins with ``libudev`` and
says where the strings are (systemd, ``sd-device/device-monitor.c``).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

__all__ = ["NetlinkUevents", "Uevent", "parse_uevent"]

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
    """Parse a message; returns None if it is none. Never raises."""
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
