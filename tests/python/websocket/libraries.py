"""The same client and server from two libraries; `websockets` is the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import websockets.asyncio.client
import websockets.asyncio.server

from penstock import websocket

CLIENTS: dict[str, Any] = {
    "penstock": websocket.connect,
    "websockets": websockets.asyncio.client.connect,
}
SERVERS: dict[str, Any] = {
    "penstock": websocket.serve,
    "websockets": websockets.asyncio.server.serve,
}


def address(server: Any, path: str = "/") -> str:
    """The address of a server that listens on one port of 127.0.0.1."""
    port = next(iter(server.sockets)).getsockname()[1]
    return f"ws://127.0.0.1:{port}{path}"


async def until(condition: Callable[[], object]) -> None:
    """Wait for what no event tells, a state inside of a connection."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def echo(connection: Any) -> None:
    async for message in connection:
        await connection.send(message)


def seen(exception: BaseException) -> tuple[str, Any, Any]:
    """What a program sees of a ConnectionClosed, but for the wording of 1009's reason."""
    rcvd, sent = getattr(exception, "rcvd", None), getattr(exception, "sent", None)
    return (
        type(exception).__name__,
        rcvd and (rcvd.code, rcvd.code == 1009 or rcvd.reason),
        sent and sent.code,
    )
