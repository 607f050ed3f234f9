"""Whether a program can have a ring of io_uring."""

from __future__ import annotations

from penstock.cli.checks import Finding, Status
from penstock.uring import probe

__all__ = ["check_uring"]


def check_uring() -> Finding:
    """Ask the kernel; where it refuses, only ``penstock.uring`` does not work."""
    found = probe()
    return Finding("uring", Status.FINE if found.available else Status.LESS, found.reason)
