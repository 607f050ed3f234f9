"""Whether a program can create an io_uring instance."""

from __future__ import annotations

from penstock.cli._doctor.findings import Finding, Status
from penstock.uring import probe

__all__ = ["check_uring"]


def check_uring() -> Finding:
    """Probe the kernel. If it refuses, only ``penstock.uring`` does not work."""
    found = probe()
    return Finding("uring", Status.FINE if found.available else Status.LESS, found.reason)
