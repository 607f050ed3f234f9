"""The standard streams of the process, with methods that are awaited.

Each is found in ``sys`` at each call, so that whoever has put another file there is obeyed.

A read of ``stdin`` waits on a worker thread, and Python has no way to end it: a loop that is closed
meanwhile waits for the input. ``penstock.files.open(0, closefd=False)`` reads the same descriptor
and can be cancelled; ``sys.stdin`` must not have read ahead then.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.files.wrapped_file import WrappedFile

__all__ = ["stderr", "stderr_bytes", "stdin", "stdin_bytes", "stdout", "stdout_bytes"]

stdin: WrappedFile[Any] = WrappedFile(lambda: sys.stdin)
stdout: WrappedFile[Any] = WrappedFile(lambda: sys.stdout)
stderr: WrappedFile[Any] = WrappedFile(lambda: sys.stderr)
stdin_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stdin.buffer)
stdout_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stdout.buffer)
stderr_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stderr.buffer)
