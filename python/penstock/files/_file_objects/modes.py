"""The mode string of ``open``, parsed."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenMode:
    """A parsed mode string."""

    text: str
    """The string itself, for ``file.mode``."""
    readable: bool
    writable: bool
    appending: bool
    binary: bool
    flags: int
    """For open(2)."""


def parse_mode(mode: str) -> OpenMode:
    """Parse a mode string.

    Raises:
        ValueError: where the built-in ``open`` raises it.
        TypeError: if ``mode`` is not a string.
    """
    if not isinstance(mode, str):
        raise TypeError(f"mode must be a string, not {type(mode).__name__}")
    letters = set(mode)
    if letters - set("rwaxbt+") or len(letters) != len(mode):
        raise ValueError(f"invalid mode: {mode!r}; use one of r, w, a, x, with b or t, and +")
    if len(letters & set("rwax")) != 1:
        raise ValueError(f"mode must have exactly one of r, w, a and x, and {mode!r} does not")
    if {"b", "t"} <= letters:
        raise ValueError(f"mode {mode!r} is both binary and text; leave b or t out")
    both = "+" in letters
    readable = both or "r" in letters
    writable = both or "r" not in letters
    flags = os.O_RDWR if both else os.O_RDONLY if readable else os.O_WRONLY
    if "w" in letters:
        flags |= os.O_CREAT | os.O_TRUNC
    elif "x" in letters:
        flags |= os.O_CREAT | os.O_EXCL
    elif "a" in letters:
        flags |= os.O_CREAT | os.O_APPEND
    return OpenMode(mode, readable, writable, "a" in letters, "b" in letters, flags)
