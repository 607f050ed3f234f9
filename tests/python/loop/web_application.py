"""The Starlette application that the tests serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

LARGE = bytes(range(256)) * 20_000


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def loop_of_the_server(request: Request) -> Response:
    return PlainTextResponse(type(asyncio.get_running_loop()).__module__)


async def measure(request: Request) -> Response:
    body = await request.body()
    return JSONResponse({"length": len(body), "same": body == LARGE})


async def download(request: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), 100_000):
            yield LARGE[start : start + 100_000]

    return StreamingResponse(chunks())


async def fail(request: Request) -> Response:
    raise LookupError("meant")


async def shout(websocket: WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text.upper())


application = Starlette(
    routes=[
        Route("/", hello),
        Route("/loop", loop_of_the_server),
        Route("/measure", measure, methods=["POST"]),
        Route("/download", download),
        Route("/fail", fail),
        WebSocketRoute("/shout", shout),
    ]
)
