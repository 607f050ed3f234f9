"""The measured ASGI and WSGI applications without a framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from benchmarks.web.content import HELLO, TEN_KIB, json_body

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PLAIN = [(b"content-type", b"text/plain"), (b"content-length", str(len(HELLO)).encode())]
SIXTEEN = [
    *PLAIN,
    *(
        (f"x-field-{number}".encode(), f"value {number} of a response".encode())
        for number in range(2, 16)
    ),
]
BODY = json_body(TEN_KIB)
OF_BODY = [(b"content-type", b"application/json"), (b"content-length", str(TEN_KIB).encode())]
OF_STREAM = [(b"content-type", b"application/octet-stream")]


async def lifespan(receive: Receive, send: Send) -> None:
    """The start-up and the shutdown, at once."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def answer(send: Send, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    """A short text."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": PLAIN})
    await send({"type": "http.response.body", "body": b"Hello, world!"})


async def sixteen_fields(scope: Message, receive: Receive, send: Send) -> None:
    """A short text behind sixteen fields."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await answer(send, SIXTEEN, b"Hello, world!")


async def ten_kib(scope: Message, receive: Receive, send: Send) -> None:
    """A body of 10 KiB."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await answer(send, OF_BODY, BODY)


async def json_echo(scope: Message, receive: Receive, send: Send) -> None:
    """The JSON of the request, read and written again."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    text = json.dumps(json.loads(body), separators=(",", ":")).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    await answer(send, fields, text)


async def stream_echo(scope: Message, receive: Receive, send: Send) -> None:
    """Each part of the request's body as it comes."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": OF_STREAM})
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        body = message.get("body", b"")
        if body or not more:
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def websocket_echo(scope: Message, receive: Receive, send: Send) -> None:
    """Each message of a WebSocket."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        if text is not None:
            await send({"type": "websocket.send", "text": text})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


listeners: set[Send] = set()


async def broadcast(scope: Message, receive: Receive, send: Send) -> None:
    """Each message of a WebSocket, to all of them."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await receive()
    await send({"type": "websocket.accept"})
    listeners.add(send)
    try:
        while (message := await receive())["type"] == "websocket.receive":
            event = {"type": "websocket.send", "text": message["text"]}
            await asyncio.gather(*(each(event) for each in listeners))
    finally:
        listeners.discard(send)


def wsgi_hello(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """A short text."""
    fields = [("Content-Type", "text/plain"), ("Content-Length", str(len(HELLO)))]
    start_response("200 OK", fields)
    return [b"Hello, world!"]
