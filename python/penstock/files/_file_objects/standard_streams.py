"""The standard streams of the process, with methods that are awaited.

Each call looks the stream up in ``sys``, so a replaced ``sys.stdout`` is used.

A read of ``stdin`` waits on a worker thread and cannot be interrupted: closing the loop waits for
the input. ``penstock.files.open(0, closefd=False)`` reads the same descriptor and can be cancelled.
Then ``sys.stdin`` must not have read ahead.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.files._file_objects.wrapped_file import WrappedFile

stdin: WrappedFile[Any] = WrappedFile(lambda: sys.stdin)
stdout: WrappedFile[Any] = WrappedFile(lambda: sys.stdout)
stderr: WrappedFile[Any] = WrappedFile(lambda: sys.stderr)
stdin_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stdin.buffer)
stdout_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stdout.buffer)
stderr_bytes: WrappedFile[Any] = WrappedFile(lambda: sys.stderr.buffer)
