"""Lists what the test process has open, to detect leaks."""

from __future__ import annotations

from tests.python.open_descriptors import open_descriptors


def open_files() -> list[str]:
    """Return the targets of this process's open descriptors."""
    return [target for _, target in sorted(open_descriptors())]
