"""Starlette on the server, asked by httpx."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from .support import HOST, connected, serving

Run = Callable[..., Any]


async def upload(request: Request) -> Response:
    parts = [len(part) async for part in request.stream()]
    return JSONResponse({"bytes": sum(parts)})


def blocking(request: Request) -> Response:
    return PlainTextResponse(f"thread {request.path_params['name']}")


async def stream(request: Request) -> Response:
    async def parts() -> AsyncIterator[str]:
        for number in range(100):
            yield f"{number}\n"
            await asyncio.sleep(0)

    return StreamingResponse(parts())


async def background(request: Request) -> Response:
    done = request.app.state.done
    return PlainTextResponse("soon", background=BackgroundTask(done.set))


async def file(request: Request) -> Response:
    return FileResponse(Path(__file__))


async def middleware(request: Request, call_next: Any) -> Any:
    response = await call_next(request)
    response.headers["x-passed"] = str(await request.is_disconnected())
    return response


def application() -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.done = asyncio.Event()
        yield

    return Starlette(
        routes=[
            Route("/upload", upload, methods=["POST"]),
            Route("/blocking/{name}", blocking),
            Route("/stream", stream),
            Route("/background", background),
            Route("/file", file),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=middleware)],
        lifespan=lifespan,
    )


def test_starlette(run: Run) -> None:
    async def main() -> None:
        app = application()
        async with (
            serving(app, lifespan="on") as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.port}", trust_env=False
            ) as client,
        ):

            async def parts() -> AsyncIterator[bytes]:
                for _ in range(20):
                    yield bytes(10_000)

            assert (await client.post("/upload", content=parts())).json() == {"bytes": 200_000}
            assert (await client.post("/upload", content=b"x")).json() == {"bytes": 1}
            assert (await client.get("/blocking/n")).text == "thread n"
            streamed = await client.get("/stream")
            assert streamed.text == "".join(f"{number}\n" for number in range(100))
            assert streamed.headers["x-passed"] == "False"
            assert (await client.get("/background")).text == "soon"
            await app.state.done.wait()
            whole = await client.get("/file")
            assert whole.content == Path(__file__).read_bytes()
            part = await client.get("/file", headers={"Range": "bytes=10-19"})
            assert (part.status_code, part.content) == (206, whole.content[10:20])
            assert (await client.head("/file")).headers["content-length"] == str(len(whole.content))
            assert (await client.get("/nothing")).status_code == 404

    run(main())


@pytest.mark.parametrize("way", ["stream", "body"])
def test_a_client_that_goes_leaves_no_error(
    run: Run, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def endless(request: Request) -> Response:
            async def parts() -> AsyncIterator[bytes]:
                try:
                    while True:
                        yield b"x"
                        await asyncio.sleep(0)
                finally:
                    ended.set()

            return StreamingResponse(parts())

        async def reading(request: Request) -> Response:
            try:
                return PlainTextResponse(str(len(await request.body())))
            except ClientDisconnect:
                ended.set()
                raise

        app = Starlette(
            routes=[Route("/stream", endless), Route("/body", reading, methods=["POST"])]
        )
        async with serving(app) as server, connected(server) as client:
            if way == "stream":
                client.writer.write(b"GET /stream HTTP/1.1\r\n" + HOST + b"\r\n")
                await client.head()
            else:
                client.writer.write(
                    b"POST /body HTTP/1.1\r\nContent-Length: 9\r\n" + HOST + b"\r\nabc"
                )
                await asyncio.sleep(0.02)
            client.writer.close()
            await ended.wait()

    with caplog.at_level(logging.INFO):
        run(main())
    assert not [record for record in caplog.records if record.name == "penstock.asgi"]
