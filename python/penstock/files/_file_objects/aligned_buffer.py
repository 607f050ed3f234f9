"""Buffers for files that are opened with ``O_DIRECT``."""

from __future__ import annotations

import mmap


def aligned_buffer(size: int) -> memoryview:
    """Make a buffer of ``size`` zero bytes that begins at a page: aligned for any device.

    Raises ValueError for a size that is not positive.
    """
    if size <= 0:
        raise ValueError(f"a buffer of {size} bytes cannot be made")
    return memoryview(mmap.mmap(-1, size))
