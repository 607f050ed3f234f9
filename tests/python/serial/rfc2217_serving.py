"""A serial port served by RFC 2217, and bytes that such a connection must not touch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from penstock.serial import SerialConfig
from penstock.serial.rfc2217 import serve_serial_port

EVERY_BYTE = bytes(range(256)) * 3 + b"\xff\xff\xff\x00\r\n"


@asynccontextmanager
async def served(path: str, config: SerialConfig | None = None) -> AsyncIterator[str]:
    """A server for *path*; yields its URL."""
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: Any) -> None:
            await serve_serial_port(path, port=0, config=config, task_status=task_status)

        number = await tasks.start(serve)
        yield f"rfc2217://127.0.0.1:{number}"
        tasks.cancel_scope.cancel()
