"""Random conversations, compared with those of uvicorn on asyncio with h11, message by message."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import penstock

from .support import respond, serving

Ask = Callable[[int], Coroutine[Any, Any, Any]]
FRAMING = {b"content-length", b"transfer-encoding", b"connection", b"date", b"server"}


class Conversation:
    """What an application does with a request, and what it has seen."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.method = choose.choice(["GET", "HEAD", "POST", "POST"])
        size = choose.choice([0, 1, 1000, 100_000]) if self.method == "POST" else 0
        self.body = choose.randbytes(size)
        self.chunked = choose.random() < 0.5
        self.pipelined = choose.random() < 0.3
        self.actions = self._actions(choose)
        self.seen: list[Any] = []

    def _actions(self, choose: random.Random) -> list[Any]:
        parts = [
            choose.randbytes(choose.choice([0, 1, 500, 70_000]))
            for _ in range(choose.choice([1, 1, 2, 4]))
        ]
        status = choose.choice([200, 200, 200, 201, 204, 304, 404])
        headers = [(b"x-%d" % number, b"value") for number in range(choose.randrange(3))]
        if choose.random() < 0.2:
            headers.append((b"connection", b"close"))
        length = sum(map(len, parts))
        if status == 304 or choose.random() < 0.4:
            wrong = choose.choice([0, 0, 0, 0, 5, -5]) if length >= 5 and status < 204 else 0
            headers.append((b"content-length", b"%d" % (length + wrong)))
        if status in (204, 304):
            parts = [b""]
            headers = [field for field in headers if field[0] != b"content-length"]
        last = len(parts) - 1
        actions: list[Any] = [{"type": "http.response.start", "status": status, "headers": headers}]
        for number, part in enumerate(parts):
            message = {"type": "http.response.body", "body": part, "more_body": number < last}
            actions.append(message)
        if choose.random() < 0.3:
            actions.insert(
                choose.randrange(len(actions)),
                choose.choice(["raise", "return", "twice", {"type": "no"}]),
            )
        for _ in range(choose.randrange(3)):
            actions.insert(choose.randrange(len(actions) + 1), "pause")
        if choose.random() < 0.7:
            actions.insert(choose.choice([0, 0, 0, len(actions)]), "receive")
        return actions

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/again":
            await respond(send, b"again", headers=[(b"content-length", b"5")])
            return
        headers = [field for field in scope["headers"] if field[0] != b"host"]
        self.seen.append((scope["method"], scope["path"], scope["query_string"], headers))
        try:
            for action in self.actions:
                await self._act(action, receive, send)
                if action == "return":
                    return
        except Exception as error:
            self.seen.append("raised" if isinstance(error, ZeroDivisionError) else "refused")
            raise

    async def _act(self, action: Any, receive: Any, send: Any) -> None:
        if action == "pause":
            await asyncio.sleep(0)
        elif action == "raise":
            raise ZeroDivisionError
        elif action == "twice":
            for _ in range(2):
                await send({"type": "http.response.start", "status": 200, "headers": []})
        elif action == "receive":
            body = b""
            while (message := await receive())["type"] == "http.request":
                body += message["body"]
                if not message["more_body"]:
                    break
            self.seen.append((message["type"], body))
        elif action != "return":
            await send(action)

    def request(self) -> bytes:
        fields = b"Host: x\r\nX-Field: 1\r\n"
        body = self.body
        if self.method == "POST":
            if self.chunked:
                fields += b"Transfer-Encoding: chunked\r\n"
                parts = [body[:7], body[7:]]
                body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
                body += b"0\r\n\r\n"
            else:
                fields += b"Content-Length: %d\r\n" % len(body)
        return b"%b /a%%20b?q HTTP/1.1\r\n%b\r\n%b" % (self.method.encode(), fields, body)


async def next_response(client: h11.Connection, reader: asyncio.StreamReader) -> Any:
    status, headers, body = None, None, b""
    try:
        while True:
            event = client.next_event()
            if event is h11.NEED_DATA:
                client.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = [field for field in event.headers if field[0] not in FRAMING]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, headers, body
            else:
                return "closed" if status is None else "cut off"
    except (h11.RemoteProtocolError, ConnectionError):
        # What of a body has left before its end is a matter of buffers.
        return "closed" if status is None else (status, headers, "cut off")


async def talk(port: int, conversation: Conversation) -> Any:
    again = b"GET /again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=conversation.method, target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    try:
        writer.write(conversation.request() + (again if conversation.pipelined else b""))
        answers = [await next_response(client, reader)]
        if client.our_state is h11.DONE and client.their_state is h11.DONE:
            client.start_next_cycle()
            client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
            client.send(h11.EndOfMessage())
            if not conversation.pipelined:
                writer.write(again)
            answers.append(await next_response(client, reader))
        else:
            answers.append("closed")  # as the head has said
    except ConnectionError:
        answers = ["closed"]
    finally:
        writer.close()
    return answers


async def with_uvicorn(seeds: range) -> list[Any]:
    current: list[Conversation] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await current[-1].application(scope, receive, send)

    config = uvicorn.Config(app, http="h11", ws="none", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: H11Protocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        return await outcomes(server.sockets[0].getsockname()[1], seeds, current)


async def with_penstock(seeds: range) -> list[Any]:
    current: list[Conversation] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await current[-1].application(scope, receive, send)

    async with serving(app) as server:
        return await outcomes(server.port, seeds, current)


async def outcomes(port: int, seeds: range, current: list[Conversation]) -> list[Any]:
    found = []
    for seed in seeds:
        conversation = Conversation(seed)
        current.append(conversation)
        answers = await talk(port, conversation)
        found.append((seed, conversation.method, conversation.actions, conversation.seen, answers))
    return found


@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_conversations_are_those_of_uvicorn(first: int) -> None:
    seeds = range(first, first + 100)
    expected = asyncio.run(asyncio.wait_for(with_uvicorn(seeds), 60))
    seen = penstock.run(asyncio.wait_for(with_penstock(seeds), 60))
    for judge, own in zip(expected, seen, strict=True):
        assert own == judge
