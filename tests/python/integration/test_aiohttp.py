"""aiohttp's client against aiohttp's server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import ssl
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from .conftest import Run

pytest.importorskip("aiohttp")

import aiohttp
from aiohttp import web

LARGE = bytes(range(256)) * 20_000

FILE = web.AppKey("file", Path)
LEFT = web.AppKey("left", asyncio.Event)


async def hello(request: web.Request) -> web.Response:
    return web.json_response({"hello": request.query.get("name", "world")})


async def digest(request: web.Request) -> web.Response:
    """Respond with the SHA-256 of a body that is read as it arrives."""
    seen = hashlib.sha256()
    length = 0
    async for chunk in request.content.iter_any():
        seen.update(chunk)
        length += len(chunk)
    return web.json_response({"sha256": seen.hexdigest(), "length": length})


async def download(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for start in range(0, len(LARGE), 100_000):
        await response.write(LARGE[start : start + 100_000])
    await response.write_eof()
    return response


async def file(request: web.Request) -> web.FileResponse:
    return web.FileResponse(request.app[FILE])


async def forever(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b"x" * 65536)
    finally:
        request.app[LEFT].set()


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        if message.data == "bye":
            await socket.close(code=4001)
        elif message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_str(message.data.upper())
        else:
            await socket.send_bytes(message.data[::-1])
    return socket


def application() -> web.Application:
    app = web.Application(client_max_size=1 << 30)
    app.add_routes(
        [
            web.get("/", hello),
            web.post("/digest", digest),
            web.get("/download", download),
            web.get("/file", file),
            web.get("/forever", forever),
            web.get("/echo", echo),
        ]
    )
    return app


@contextlib.asynccontextmanager
async def serving(
    app: web.Application, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context).start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}" if ssl_context is None else f"https://localhost:{port}"
    finally:
        await runner.cleanup()


def test_sequential_and_concurrent_requests_are_answered(run: Run) -> None:
    async def main() -> None:
        async with serving(application()) as url, aiohttp.ClientSession(url) as client:
            for number in range(20):
                async with client.get("/", params={"name": str(number)}) as answer:
                    assert await answer.json() == {"hello": str(number)}

            async def ask(number: int) -> None:
                async with client.get("/", params={"name": str(number)}) as answer:
                    assert await answer.json() == {"hello": str(number)}

            await asyncio.gather(*(ask(number) for number in range(100)))

    run(main())


def test_a_streamed_body_arrives_byte_for_byte(run: Run) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), 77_777):
            yield LARGE[start : start + 77_777]

    async def main() -> None:
        async with serving(application()) as url, aiohttp.ClientSession(url) as client:
            async with client.post("/digest", data=pieces()) as answer:
                assert await answer.json() == {
                    "sha256": hashlib.sha256(LARGE).hexdigest(),
                    "length": len(LARGE),
                }
            async with client.get("/download") as answer:
                chunks = [chunk async for chunk in answer.content.iter_chunked(30_000)]
                assert b"".join(chunks) == LARGE

    run(main())


def test_a_file_is_sent(run: Run, tmp_path: Path) -> None:
    """With loop.sendfile where aiohttp selects it."""
    path = tmp_path / "large"
    path.write_bytes(LARGE)

    async def main() -> None:
        app = application()
        app[FILE] = path
        async with serving(app) as url, aiohttp.ClientSession(url) as client:
            async with client.get("/file") as answer:
                assert await answer.read() == LARGE
            async with client.get("/file", headers={"Range": "bytes=1000-1999"}) as answer:
                assert answer.status == 206
                assert await answer.read() == LARGE[1000:2000]

    run(main())


def test_a_websocket_carries_text_binary_data_and_a_close_code(run: Run) -> None:
    async def main() -> None:
        async with serving(application()) as url, aiohttp.ClientSession(url) as client:
            async with client.ws_connect("/echo", max_msg_size=0) as socket:
                for text in ("one", "two", "x" * 1_000_000):
                    await socket.send_str(text)
                    assert await socket.receive_str() == text.upper()
                await socket.send_bytes(LARGE)
                assert await socket.receive_bytes() == LARGE[::-1]
                await socket.send_str("bye")
                assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
                assert socket.close_code == 4001

            async def talk(number: int) -> None:
                async with client.ws_connect("/echo") as socket:
                    for turn in range(10):
                        await socket.send_str(f"w{number}.{turn}")
                        assert await socket.receive_str() == f"W{number}.{turn}"

            await asyncio.gather(*(talk(number) for number in range(20)))

    run(main())


def test_a_handler_ends_when_its_client_disconnects(run: Run) -> None:
    async def main() -> None:
        app = application()
        app[LEFT] = asyncio.Event()
        async with serving(app) as url:
            async with aiohttp.ClientSession(url) as client:
                answer = await client.get("/forever")
                assert await answer.content.readexactly(1_000_000) == b"x" * 1_000_000
                answer.close()
            await app[LEFT].wait()

    run(main())


def test_a_client_raises_after_its_timeout(run: Run) -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    async def main() -> None:
        app = web.Application()
        app.add_routes([web.get("/", slow)])
        async with serving(app) as url, aiohttp.ClientSession(url) as client:
            with pytest.raises(TimeoutError):
                await client.get("/", timeout=aiohttp.ClientTimeout(total=0.05))
            released.set()
            async with client.get("/") as answer:
                assert answer.status == 200

    run(main())


def test_a_tls_connection_verifies_the_certificate(run: Run) -> None:
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server_context)
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)

    async def main() -> None:
        connector = aiohttp.TCPConnector(ssl=client_context)
        async with (
            serving(application(), server_context) as url,
            aiohttp.ClientSession(url, connector=connector) as client,
        ):
            async with client.get("/download") as answer:
                assert await answer.read() == LARGE
            async with client.ws_connect("/echo") as socket:
                await socket.send_str("over tls")
                assert await socket.receive_str() == "OVER TLS"

    run(main())


RUN_APP = """
import asyncio
import sys

import penstock
from aiohttp import web

async def tell(request):
    return web.Response(text=type(asyncio.get_running_loop()).__module__)

async def cleanup(app):
    print("cleaned up", flush=True)

app = web.Application()
app.add_routes([web.get("/", tell)])
app.on_cleanup.append(cleanup)
web.run_app(app, host="127.0.0.1", port=0, loop=penstock.new_event_loop())
"""


@pytest.mark.usefixtures("penstock_built")
def test_run_app_uses_the_loop_and_ends_on_sigterm(child_environment: dict[str, str]) -> None:
    async def ask(url: str) -> str:
        async with aiohttp.ClientSession() as client, client.get(url) as answer:
            text: str = await answer.text()
            return text

    with subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(RUN_APP)],
        env=child_environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "Running on" in line
            url = next(word for word in line.split() if word.startswith("http"))
            assert asyncio.run(ask(url)).startswith("penstock.")
            process.send_signal(signal.SIGTERM)
            assert "cleaned up" in process.stdout.read()
            assert process.wait(20) == 0
        finally:
            process.kill()
