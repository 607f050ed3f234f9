"""A kill in the middle of a call of ``os`` that changes a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

__all__ = ["kill_at_file_call"]

_CALLS = (
    *("write", "pwrite", "fsync", "fdatasync", "replace", "rename", "link", "unlink", "ftruncate"),
    *("mkdir", "rmdir"),
)


def kill_at_file_call(number: int) -> None:
    """Have this process killed at its call ``number`` of those, a write when half of it is done."""
    left = number

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name in ("write", "pwrite"):
                    half = bytes(arguments[1])[: len(arguments[1]) // 2]
                    real(arguments[0], half, *arguments[2:])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in _CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
