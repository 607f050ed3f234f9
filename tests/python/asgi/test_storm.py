"""Clients that go at any moment, applications that are cancelled at any moment, and a collector
that runs at each allocation."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from .support import CLOSE, HOST, connected, conversation, serving

Run = Callable[..., Any]


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.parametrize("seed", range(3))
def test_a_storm_leaves_the_server_as_it_was(run: Run, seed: int) -> None:
    choose = random.Random(seed)
    tasks: set[asyncio.Task[Any]] = set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if scope["path"] == "/end":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"end"})
            return
        tasks.add(task)
        try:
            for _ in range(choose.randrange(8)):
                match choose.randrange(6):
                    case 0:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(receive(), choose.choice([0, 0.001]))
                    case 1:
                        await asyncio.gather(receive(), asyncio.sleep(0))
                    case 2:
                        await asyncio.sleep(choose.choice([0, 0.001]))
                    case 3:
                        message = {"type": "http.response.start", "status": 200, "headers": []}
                        await send(message)
                    case 4:
                        part = bytes(choose.choice([0, 1, 100_000]))
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                    case 5:
                        await asyncio.create_task(send({"type": "http.response.body"}))
        finally:
            tasks.discard(task)

    async def client(server: Any) -> None:
        async with connected(server) as peer:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                for _ in range(choose.randrange(1, 4)):
                    body = bytes(choose.choice([0, 10, 200_000]))
                    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n" % len(body) + HOST
                    whole = head + b"\r\n" + body
                    peer.writer.write(whole[: choose.choice([len(whole), len(whole) // 2, 30])])
                    match choose.randrange(3):
                        case 0:
                            peer.writer.transport.abort()
                        case 1:
                            await asyncio.wait_for(peer.reader.read(100), 0.05)
                        case 2:
                            await asyncio.sleep(0)
                    if tasks and choose.random() < 0.3:
                        choose.choice([*tasks]).cancel()

    async def main() -> None:
        async with serving(app, timeout_graceful_shutdown=0.2) as server:
            for _ in range(12):
                await asyncio.gather(*(client(server) for _ in range(5)), return_exceptions=True)
            answer = await conversation(server, b"GET /end HTTP/1.1\r\n" + CLOSE)
            assert answer.endswith(b"end")
        assert server.open_connections == 0
        assert not server.native.tasks

    logging.disable(logging.CRITICAL)
    try:
        run(main())
    finally:
        logging.disable(logging.NOTSET)
