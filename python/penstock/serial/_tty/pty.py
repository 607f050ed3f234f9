"""Distinguishing a pseudo-terminal from a tty with hardware."""

from __future__ import annotations

import os

__all__ = ["is_pty"]

_PTY_SLAVE_MAJORS = range(136, 144)  # Linux, Documentation/admin-guide/devices.txt


def is_pty(tty: int | str) -> bool:
    """Return whether a descriptor or a path is a pseudo-terminal; False for a path to nothing."""
    try:
        return os.major(os.stat(tty).st_rdev) in _PTY_SLAVE_MAJORS
    except (OSError, ValueError):
        return False
