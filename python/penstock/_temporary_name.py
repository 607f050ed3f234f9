"""Names of files that are being written: :func:`temporary_name`."""

from __future__ import annotations

import os
import secrets

_LONGEST_NAME = 255  # bytes, NAME_MAX of limits.h


def temporary_name(name: str) -> str:
    """A new name for a file that will get ``name`` when it is complete: ``.NAME.XXXXXXXX.tmp``.

    A name that would be too long for a file system is cut, by bytes, and not inside a character.
    """
    token = secrets.token_hex(4)
    room = _LONGEST_NAME - len(f"..{token}.tmp")
    start = os.fsencode(name)[:room].decode("utf-8", "ignore")
    return f".{start}.{token}.tmp"
