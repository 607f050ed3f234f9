"""fallocate(2): space for a file, and holes in it."""

from __future__ import annotations

import ctypes
import errno
import os
from operator import index

# <linux/falloc.h>
_KEEP_SIZE, _PUNCH_HOLE = 0x1, 0x2
_LARGEST = (1 << 63) - 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def allocate(fd: int, offset: int, length: int, keep_size: bool) -> None:
    """Reserve the blocks of a range. Blocks the calling thread, without the GIL."""
    _call(fd, _KEEP_SIZE if keep_size else 0, offset, length)


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Free the blocks of a range. Blocks the calling thread, without the GIL."""
    _call(fd, _KEEP_SIZE | _PUNCH_HOLE, offset, length)


def _call(fd: int, mode: int, offset: int, length: int) -> None:
    for number in (offset, length):
        # ctypes would cut it off, and the call would change another range.
        if not -_LARGEST <= index(number) <= _LARGEST:
            raise OSError(errno.EFBIG, f"{number} is beyond the largest position of a file")
    while _libc.fallocate(fd, mode, offset, length) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
