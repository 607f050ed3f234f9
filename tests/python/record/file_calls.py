"""A kill in the middle of a call of ``os`` that changes a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

__all__ = ["kill_at_file_call"]

_CALLS = ("write", "fsync", "fdatasync", "replace", "link", "unlink", "ftruncate", "mkdir", "rmdir")


def kill_at_file_call(number: int) -> None:
    """Have this process killed at its call ``number`` of those, a write when half of it is done."""
    left = number

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in _CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
