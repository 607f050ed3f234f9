"""The resident memory of this process, and the mark of tests that compare it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.python.conftest import not_sanitized

measures_memory = not_sanitized("the sanitizer's own allocator keeps freed memory")


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
