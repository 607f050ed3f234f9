"""Lock files of UUCP: what programs such as minicom, cu, kermit and gtkterm leave while they run.

Such a file, ``/var/lock/LCK..ttyUSB0``, holds the number of its process (Filesystem Hierarchy
Standard 3.0, 5.9). It stops nobody who does not look for it, and its program may hold neither lock
of the port itself. It is respected, and none is made: the two locks of a port stop such a program
too, and no file stays behind when a process is killed.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

_DEVICES = "/dev/"
_FOLDERS = ("/var/lock", "/var/lock/lockdev")
_NEVER_LOCKED = ("/dev/pts/",)
"""Pseudo-terminals: who opens one has been given its name."""
_NUMBER = struct.Struct("@i")
_LONGEST = 64  # of the first line, in bytes


class LockFile:
    """A lock file of a program that runs.

    Attributes:
        path: the file.
        holder: the number of the process.
    """

    __slots__ = ("holder", "path")

    def __init__(self, path: str, holder: int) -> None:
        self.path = path
        self.holder = holder


def find_lock_file(port: str) -> LockFile | None:
    """The lock file of a port, if the process in it runs and is not this one."""
    if port.startswith(_NEVER_LOCKED):
        return None
    for name in _names_of(port):
        for folder in _FOLDERS:
            path = f"{folder}/LCK..{name}"
            holder = _holder_in(path)
            if holder is not None and holder != os.getpid() and _runs(holder):
                return LockFile(path, holder)
    return None


def _names_of(port: str) -> tuple[str, ...]:
    """What programs call a port in the name of its lock file: ``ttyUSB0`` for each of its links."""
    real = os.path.realpath(port)
    if not real.startswith(_DEVICES) or real.startswith(_NEVER_LOCKED):
        return ()
    name = real[len(_DEVICES) :]
    # In a folder below /dev, minicom writes an underscore and lockdev a colon.
    return (name.replace("/", "_"), name.replace("/", ":")) if "/" in name else (name,)


def _holder_in(path: str) -> int | None:
    """The process in a lock file: a text, or the four bytes of a C int; None without one."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LONGEST)
    except OSError:
        return None
    words = content.split()
    if words and words[0].isdigit():
        return int(words[0]) or None
    if len(content) == _NUMBER.size:
        holder: int = _NUMBER.unpack(content)[0]
        return holder if holder > 0 else None
    return None


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True  # of another user
    except (ProcessLookupError, OverflowError):
        return False
    return True
