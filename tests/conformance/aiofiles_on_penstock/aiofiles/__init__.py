"""What calls itself ``aiofiles`` for aiofiles' own tests, and is ``penstock.files``."""

from typing import Any

from penstock import files
from penstock.files import (
    open,
    stderr,
    stderr_bytes,
    stdin,
    stdin_bytes,
    stdout,
    stdout_bytes,
    tempfile,
)
from penstock.files._file_objects import opening

__all__ = [
    "open",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "tempfile",
]

# The tests look at the file beneath, to see whether it is closed, and at what was opened.
AsyncFile: Any = files.AsyncFile
AsyncFile._file = property(lambda file: file)
Opening: Any = opening.Opening
Opening._obj = property(lambda opened: opened._file)
