"""Streams and connections that end at any moment, with a collector that runs all the time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from .http2_client import CANCEL, Http2Client, request_fields, speaking_http2
from .support import serving

Run = Callable[..., Any]


class Storm:
    """An application and clients that act at random."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/end":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"end"})
            return
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            for _ in range(self.choose.randrange(8)):
                await self._act(receive, send)
        finally:
            self.tasks.discard(task)

    async def _act(self, receive: Any, send: Any) -> None:
        choose = self.choose
        match choose.randrange(7):
            case 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(receive(), choose.choice([0, 0.001]))
            case 1:
                await asyncio.gather(receive(), asyncio.sleep(0))
            case 2:
                await asyncio.sleep(choose.choice([0, 0.001]))
            case 3:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            case 4:
                part = bytes(choose.choice([0, 1, 100_000]))
                await send({"type": "http.response.body", "body": part, "more_body": True})
            case 5:
                await asyncio.create_task(send({"type": "http.response.body"}))
            case 6:
                await send({"type": "http.response.early_hint", "links": [b"</a>"]})

    async def client(self, server: Any) -> None:
        choose = self.choose
        async with speaking_http2(server) as client:
            client.reads = choose.random() < 0.7
            streams = [client.ask(request_fields(method=b"POST"), ends=False) for _ in range(8)]
            for stream in streams:
                await self._use(client, stream)
            if self.tasks and choose.random() < 0.3:
                choose.choice([*self.tasks]).cancel()
            if choose.random() < 0.5:
                client.writer.transport.abort()
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(client.read(), 0.05)

    async def _use(self, client: Http2Client, stream: int) -> None:
        choose = self.choose
        if client.answers[stream].reset is not None or client.answers[stream].ended:
            return
        match choose.randrange(4):
            case 0:
                client.h2.reset_stream(stream, CANCEL)
            case 1:
                client.send(stream, bytes(choose.choice([0, 10, 10_000])), end=True)
            case 2:
                client.send(stream, bytes(1000))
            case 3:
                client.flush()
                with suppress(TimeoutError):
                    await asyncio.wait_for(client.read(), 0.002)
        client.flush()


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.parametrize("seed", range(3))
def test_a_storm_leaves_the_server_as_it_was(run: Run, seed: int) -> None:
    storm = Storm(seed)

    async def main() -> None:
        async with serving(storm, http2=True, timeout_graceful_shutdown=0.2) as server:
            for _ in range(6):
                clients = (storm.client(server) for _ in range(5))
                await asyncio.gather(*clients, return_exceptions=True)
            async with speaking_http2(server) as client:
                answer = await client.answer(client.ask(request_fields(b"/end")))
                assert answer.body == b"end"
        assert server.open_connections == 0
        assert not server.native.tasks

    logging.disable(logging.CRITICAL)
    try:
        run(main())
    finally:
        logging.disable(logging.NOTSET)
