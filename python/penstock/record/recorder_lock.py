"""Whether a recorder still writes a recording: it holds a lock on one of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["is_being_recorded"]

_LOCKS = Path("/proc/locks")


def is_being_recorded(files: Iterable[Path]) -> bool:
    """Whether a process of this machine holds a recorder's lock on one of ``files``.

    False also where that cannot be seen: a recorder on another machine or in another container.
    The list of the kernel is read (proc_locks(5)). Rejected: trying to lock, which for that moment
    would refuse a recorder that begins.
    """
    try:
        listed = _LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    # The device is not compared: it is not the one of stat on btrfs and on overlays.
    locked = {
        fields[5].rpartition(":")[2]
        for line in listed.splitlines()
        if (fields := line.split())[1:4:2] == ["FLOCK", "WRITE"] and len(fields) > 5
    }
    return bool(locked) and any(number in locked for number in _inodes(files))


def _inodes(files: Iterable[Path]) -> Iterable[str]:
    for file in files:
        try:
            yield str(os.stat(file).st_ino)
        except OSError:
            continue  # replaced at this moment
