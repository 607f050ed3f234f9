"""inotify(7): the kernel's reports of changes, with its system calls."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_HEADER = struct.Struct("iIII")  # struct inotify_event
_BUFFER = 64 << 10
_LIMITS = Path("/proc/sys/fs/inotify")


class Mask:
    """The bits of an event, as <sys/inotify.h> has them."""

    MODIFY = 0x2
    ATTRIB = 0x4
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLY_FOLDER = 0x1000000
    DONT_FOLLOW = 0x2000000
    IS_FOLDER = 0x40000000


class Event(NamedTuple):
    """One report: the watch, what happened, and the entry of the folder, if it concerns one."""

    watch: int
    mask: int
    cookie: int
    name: str


class Inotify:
    """An inotify descriptor, closed on exec and nonblocking.

    Raises:
        OSError: EMFILE at the limit of a user's descriptors for inotify, which the text names.
    """

    def __init__(self) -> None:
        self.fd: int = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            raise _error(None, {errno.EMFILE: "max_user_instances"})

    def add(self, path: str, mask: int) -> int:
        """Watch a file or folder, and return the number of the watch; the old one if it has one.

        Raises:
            OSError: with the path; ENOSPC at the limit of a user's watches, which the text names.
        """
        number: int = _libc.inotify_add_watch(self.fd, os.fsencode(path), mask)
        if number < 0:
            raise _error(path, {errno.ENOSPC: "max_user_watches"})
        return number

    def remove(self, watch: int) -> None:
        """End a watch; one that has ended by itself is passed over."""
        _libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> list[Event]:
        """Return the events that are there, without waiting."""
        events: list[Event] = []
        while True:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return events
            events.extend(_parsed(data))
            if len(data) < _BUFFER // 2:
                return events

    def close(self) -> None:
        """Close it, once."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _parsed(data: bytes) -> Iterator[Event]:
    begin = 0
    while begin < len(data):
        watch, mask, cookie, length = _HEADER.unpack_from(data, begin)
        begin += _HEADER.size
        name = data[begin : begin + length].rstrip(b"\0")
        begin += length
        yield Event(watch, mask, cookie, os.fsdecode(name))


def _error(path: str | None, limits: dict[int, str]) -> OSError:
    number = ctypes.get_errno()
    reason = os.strerror(number)
    if (limit := limits.get(number)) is not None:
        try:
            value = (_LIMITS / limit).read_text().strip()
        except OSError:
            value = "unknown"
        reason = f"the limit fs.inotify.{limit}, {value}, is reached; raise it with sysctl"
    return OSError(number, reason, path)
