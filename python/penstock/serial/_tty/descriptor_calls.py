"""The three system calls that move a port's bytes, bound to a descriptor."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

__all__ = ["DescriptorCalls", "descriptor_calls"]


class DescriptorCalls(NamedTuple):
    """Calls on a descriptor; each raises BlockingIOError instead of waiting."""

    read: Callable[[int], bytes]
    readinto: Callable[[memoryview], int]
    write: Callable[[bytes | memoryview], int]


def descriptor_calls(fd: int) -> DescriptorCalls:
    """Bind the calls to ``fd``, as C functions where the standard library has one."""
    return DescriptorCalls(partial(os.read, fd), partial(_read_into, fd), partial(os.write, fd))


def _read_into(fd: int, buffer: memoryview) -> int:
    return os.readv(fd, [buffer])
