"""A serial port served over RFC 2217, and bytes that the connection must not change."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from penstock.serial import SerialConfig
from penstock.serial.rfc2217 import Rfc2217Server, serve_serial_port

EVERY_BYTE = bytes(range(256)) * 3 + b"\xff\xff\xff\x00\r\n"


@asynccontextmanager
async def served(path: str, config: SerialConfig | None = None) -> AsyncIterator[str]:
    """Serve ``path``; yield the URL."""
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: Any) -> None:
            await serve_serial_port(path, port=0, config=config, task_status=task_status)

        number = await tasks.start(serve)
        yield f"rfc2217://127.0.0.1:{number}"
        tasks.cancel_scope.cancel()


@contextmanager
def served_by_rfc2217(path: str) -> Iterator[str]:
    """Serve ``path`` in a separate thread; yield the URL."""
    served = threading.Event()
    address: list[int] = []
    end = threading.Event()

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:

            async def serving(*, task_status: anyio.abc.TaskStatus[int]) -> None:
                await serve_serial_port(path, port=0, task_status=task_status)

            address.append(await tasks.start(serving))
            served.set()
            await anyio.to_thread.run_sync(end.wait)
            tasks.cancel_scope.cancel()

    server = threading.Thread(target=anyio.run, args=(serve,))
    server.start()
    try:
        assert served.wait(60)
        yield f"rfc2217://127.0.0.1:{address[0]}"
    finally:
        end.set()
        server.join()


async def serve_and_close(server: Rfc2217Server, listener: Any) -> None:
    async with listener:
        await server.serve(listener)
