"""Lists the test process's open descriptors, to detect leaks."""

from __future__ import annotations

import contextlib
import os


def open_descriptors() -> set[tuple[int, str]]:
    """Return the open descriptors, each as its number and what it refers to.

    A test compares with ``<=``: nothing new may be open. Garbage of an earlier test may be closed
    at any time, so an equal count would not hold, and could hide a leak.
    """
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as the listing's own is
            found.add((int(number), os.readlink(f"/proc/self/fd/{number}")))
    return found
