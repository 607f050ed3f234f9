"""The file of rows that the other side will never take, with its reasons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from penstock._durable_files import sync_folder, write_fully

__all__ = ["RefusedRows"]


class RefusedRows:
    """Rows as they were sent, a line each, below comments that tell why they were refused.

    InfluxDB's line protocol has such comments, so a mended file of lines can be sent as it is.

    Attributes:
        path: made with the first line.
        reason: why the first of this run was refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reason: str | None = None

    def add(self, lines: Sequence[bytes], reason: str) -> None:
        """Append lines durably. OSError."""
        reason = " ".join(reason.split())
        self.reason = self.reason or reason
        head = f"# {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {len(lines)} refused: {reason}\n"
        data = head.encode() + b"".join(line + b"\n" for line in lines)
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            write_fully(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(os.fspath(self.path))
