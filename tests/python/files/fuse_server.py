"""A file system of a daemon, which notes the thread that each request comes from.

Run as a program: ``fuse_server.py FOLDER``. It mounts a file system (fuse(4)) with one file, which
nobody can write, says "ready", and writes a record for each request, before it answers. It ends
when the file system is unmounted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

__all__ = ["FileServer"]

NAME = "file"
CONTENT = b"".join(b"line %05d\n" % number for number in range(3000))

_libc = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
_PR_SET_PDEATHSIG = 1
_RECORD = struct.Struct("=II")  # what is asked, and the thread
_REQUEST = struct.Struct("=IIQQIIIHH")
_ANSWER = struct.Struct("=IiQ")
_ATTRIBUTES = struct.Struct("=6Q10I")
_ROOT, _FILE = 1, 2
_LOCKS = 2  # FUSE_POSIX_LOCKS: the daemon keeps them
_VALID = 3600  # seconds that the kernel may keep names and attributes
_WITHOUT_ANSWER = frozenset({2, 36, 42})
NAMES = {
    1: "lookup",
    3: "getattr",
    4: "setattr",
    14: "open",
    15: "read",
    16: "write",
    17: "statfs",
    18: "release",
    25: "flush",
    26: "init",
    32: "setlk",
    33: "setlkw",
}


class FileServer:
    """The daemon, seen from the test."""

    def __init__(self, folder: Path) -> None:
        """Start it. PermissionError where this process may not mount."""
        self.path = folder / NAME
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._records = self._process.stdout
        if self._records.readline() != b"ready\n":
            self.close()
            raise PermissionError("no file system can be mounted")
        os.set_blocking(self._records.fileno(), False)

    def asked_by(self, thread: int) -> list[str]:
        """Return what was asked by a thread since the last call."""
        data = b""
        try:
            while piece := os.read(self._records.fileno(), 1 << 16):
                data += piece
        except BlockingIOError:
            pass
        return [
            NAMES.get(kind, str(kind)) for kind, by in _RECORD.iter_unpack(data) if by == thread
        ]

    def close(self) -> None:
        """Unmount the file system, which ends the daemon."""
        _libc.umount2(os.fsencode(self._folder), _DETACH)
        self._process.wait(60)
        self._records.close()


def _attributes(node: int) -> bytes:
    folder = node == _ROOT
    mode = stat.S_IFDIR | 0o755 if folder else stat.S_IFREG | 0o644
    size = 0 if folder else len(CONTENT)
    return _ATTRIBUTES.pack(node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(kind: int, node: int, data: bytes) -> bytes | int:
    """Return the answer to a request, or an errno."""
    match NAMES.get(kind):
        case "init":
            size = 1 << 16
            return struct.pack("=IIIIHHIIHHI28x", 7, 31, size, _LOCKS, 8, 8, size, 1, 16, 0, 0)
        case "lookup":
            if data.rstrip(b"\0") != NAME.encode():
                return errno.ENOENT
            return struct.pack("=QQQQII", _FILE, 0, _VALID, _VALID, 0, 0) + _attributes(_FILE)
        case "getattr" | "setattr":
            return struct.pack("=QII", _VALID, 0, 0) + _attributes(node)
        case "open":
            return struct.pack("=QIi", 0, 0, 0)
        case "read":
            _, offset, size = struct.unpack_from("=QQI", data)
            return CONTENT[offset : offset + size]
        case "write":
            return struct.pack("=II", struct.unpack_from("=QQI", data)[2], 0)
        case "statfs":
            return struct.pack("=5Q4I24x", 9, 9, 9, 9, 9, 4096, 255, 4096, 0)
        case "flush" | "release" | "setlk" | "setlkw":
            return b""
        case _:
            return errno.ENOSYS


def main(folder: str) -> None:
    """Serve until the file system is unmounted, or the test is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if _libc.mount(b"penstock", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
        return
    os.write(1, b"ready\n")
    while True:
        try:
            request = os.read(device, 1 << 18)
        except InterruptedError:
            continue
        except OSError:  # ENODEV: unmounted
            return
        _, kind, number, node, _, _, thread, _, _ = _REQUEST.unpack_from(request)
        os.write(1, _RECORD.pack(kind, thread))
        if kind in _WITHOUT_ANSWER:
            continue
        answer = _answer(kind, node, request[_REQUEST.size :])
        error = answer if isinstance(answer, int) else 0
        body = b"" if isinstance(answer, int) else answer
        try:
            os.write(device, _ANSWER.pack(_ANSWER.size + len(body), -error, number) + body)
        except OSError:  # ENOENT: the request was interrupted
            continue


if __name__ == "__main__":
    main(sys.argv[1])
