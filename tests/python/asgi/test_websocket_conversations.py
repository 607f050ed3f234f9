"""Random conversations over WebSockets, compared with those of uvicorn on asyncio."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import penstock

from .support import serving

pytest.importorskip("websockets", minversion="13")

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus


class Conversation:
    """Who says what, in turn, and what the application has seen of it."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.offered = choose.choice([[], ["a"], ["a", "b"]])
        self.chosen = choose.choice([None, *self.offered])
        self.compression = choose.choice([None, "deflate"])
        self.steps = [self._step(choose) for _ in range(choose.randrange(8))]
        self.code = choose.choice([1000, 1001, 3000, 4999])
        self.reason = choose.choice(["", "enough", "ü" * 40])
        self.end = choose.choice(["client", "client", "app", "app", "refused", "denied", "lost"])
        self.seen: list[Any] = []

    @staticmethod
    def _step(choose: random.Random) -> tuple[str, str | bytes]:
        size = choose.choice([0, 1, 125, 126, 65535, 65536, 200_000])
        body = choose.choice(["é" * (size // 2), choose.randbytes(size)])
        return choose.choice(["client", "app"]), body

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        names = ("type", "path", "raw_path", "query_string", "http_version", "scheme", "root_path")
        self.seen.append({name: scope[name] for name in names} | {"offered": scope["subprotocols"]})
        self.seen.append(await receive())
        if self.end == "refused":
            await send({"type": "websocket.close", "code": self.code})
        elif self.end == "denied":
            head = {"status": 418, "headers": [(b"x-why", b"tea")]}
            await send({"type": "websocket.http.response.start", **head})
            await send({"type": "websocket.http.response.body", "body": b"a pot"})
        else:
            await self._talk(receive, send)

    async def _talk(self, receive: Any, send: Any) -> None:
        fields = [(b"x-field", b"1")]
        await send({"type": "websocket.accept", "subprotocol": self.chosen, "headers": fields})
        for who, body in self.steps:
            if who == "app":
                kind = "text" if isinstance(body, str) else "bytes"
                await send({"type": "websocket.send", kind: body})
            else:
                self._note(await receive())
        if self.end == "app":
            await send({"type": "websocket.close", "code": self.code, "reason": self.reason})
        self._note(await receive())

    def _note(self, message: Any) -> None:
        # What has its default may be left out: of text and bytes the one that is None, and reason.
        noted = {name: value for name, value in message.items() if value is not None}
        if not noted.get("reason"):
            noted.pop("reason", None)
        if self.end == "lost":
            noted.pop("code", None)  # 1006, where uvicorn has 1005: docs/migrate/uvicorn.md
        self.seen.append(noted)

    async def talk(self, port: int) -> list[Any]:
        url = f"ws://127.0.0.1:{port}/a%20b?q"
        options: Any = {"compression": self.compression, "proxy": None, "max_size": None}
        if self.offered:
            options["subprotocols"] = self.offered
        try:
            client = await connect(url, **options)
        except InvalidStatus as error:
            answer = error.response
            return [answer.status_code, answer.headers.get("x-why"), answer.body]
        response: Any = client.response
        found: list[Any] = [client.subprotocol, response.headers.get("x-field")]
        for who, body in self.steps:
            if who == "client":
                await client.send(body)
            else:
                found.append(await client.recv())
        if self.end == "client":
            await client.close(self.code, self.reason)
        elif self.end == "lost":
            client.transport.abort()
        try:
            await client.recv()
        except ConnectionClosed:
            found.append(client.close_code)
            if self.end != "lost":
                found.append(client.close_reason)
        await client.wait_closed()
        return found


async def outcomes(port: int, seeds: range, current: list[Any]) -> list[Any]:
    found = []
    for seed in seeds:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        conversation = Conversation(seed)
        current.append((conversation, ended))
        answers = await conversation.talk(port)
        await ended
        found.append((seed, conversation.end, answers, conversation.seen))
    return found


async def run_current(current: list[Any], scope: Any, receive: Any, send: Any) -> None:
    conversation, ended = current[-1]
    try:
        await conversation.application(scope, receive, send)
    finally:
        ended.set_result(None)


async def with_uvicorn(seeds: range) -> list[Any]:
    current: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await run_current(current, scope, receive, send)

    config = uvicorn.Config(app, http="h11", ws="websockets-sansio", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: H11Protocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        return await outcomes(server.sockets[0].getsockname()[1], seeds, current)


async def with_penstock(seeds: range) -> list[Any]:
    current: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await run_current(current, scope, receive, send)

    async with serving(app) as server:
        return await outcomes(server.port, seeds, current)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_conversations_are_those_of_uvicorn() -> None:
    seeds = range(150)
    expected = asyncio.run(asyncio.wait_for(with_uvicorn(seeds), 60))
    seen = penstock.run(asyncio.wait_for(with_penstock(seeds), 60))
    for judge, own in zip(expected, seen, strict=True):
        assert own == judge
