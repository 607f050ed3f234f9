"""When a process has served enough: its requests, or its memory."""

from __future__ import annotations

import argparse
import functools
import os
import random

__all__ = ["ProcessLimits", "resident_memory"]


@functools.cache
def _statm(process: int) -> int:
    return os.open(f"/proc/{process}/statm", os.O_RDONLY | os.O_CLOEXEC)


def resident_memory() -> int:
    """Return the bytes of memory that this process has.

    It needs a descriptor at its first call only: later, clients may have taken all of them.
    """
    pages = os.pread(_statm(os.getpid()), 100, 0).split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class ProcessLimits:
    """The limits of one process, each with its own random addition.

    Without that, workers that began together would end together.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._requests = _raised(options.limit_max_requests, options.limit_max_requests_jitter)
        self._memory = _raised(options.limit_max_memory, options.limit_max_memory_jitter)

    def exceeded(self, requests: int) -> str | None:
        """Return in words which limit is reached. Each is told once."""
        if self._requests is not None and requests >= self._requests:
            text = f"Maximum request limit of {self._requests} exceeded."
            self._requests = None
            return text
        if self._memory is not None and (memory := resident_memory()) >= self._memory:
            text = f"Memory limit of {self._memory >> 20} MiB exceeded ({memory >> 20} MiB)."
            self._memory = None
            return text
        return None


def _raised(limit: int | None, jitter: int) -> int | None:
    return None if limit is None else limit + random.randint(0, jitter)
