"""Whether a recorder still writes a recording: it holds a lock on one of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["is_being_recorded", "is_locked"]

_LOCKS = Path("/proc/locks")


def is_being_recorded(files: Iterable[Path]) -> bool:
    """Whether a process of this machine holds a recorder's lock on one of ``files``.

    False also where that cannot be seen: a recorder on another machine or in another container.
    The list of the kernel is read (proc_locks(5)). Rejected: trying to lock, which for that moment
    would refuse a recorder that begins.
    """
    # The device is not compared: it is not the one of stat on btrfs and on overlays.
    locked = {
        fields[5].rpartition(":")[2]
        for fields in _listed()
        if fields[1:4:2] == ["FLOCK", "WRITE"] and len(fields) > 5
    }
    return bool(locked) and any(number in locked for number in _inodes(files))


def is_locked(file: Path) -> bool:
    """Whether a process of this machine, this one too, holds or wants a lock on ``file``.

    False also where that cannot be seen.
    """
    # Device and inode stand before the range, whatever stands before them.
    numbers = {fields[-3].rpartition(":")[2] for fields in _listed() if len(fields) > 5}
    return any(number in numbers for number in _inodes([file]))


def _listed() -> list[list[str]]:
    try:
        listed = _LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return [line.split() for line in listed.splitlines()]


def _inodes(files: Iterable[Path]) -> Iterable[str]:
    for file in files:
        try:
            yield str(os.stat(file).st_ino)
        except OSError:
            continue  # replaced at this moment
