"""The servers of the websocket page: an echo of binary messages by a chosen library.

    python benchmarks/websocket_server.py --server penstock

It listens on a free port of the loopback interface and prints it when it is ready. Compression is
off.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    loop_factory,
    serve_until_stdin_ends,
)


async def echo(connection: Any) -> None:
    """The handler of penstock.websocket and of websockets."""
    async for message in connection:
        await connection.send(message)


async def answer(connection: Any) -> None:
    """The handler of penstock.websocket with a function for each message."""

    def reply(message: Any) -> None:
        connection.write(message)

    await connection.for_each(reply)


async def serve_penstock(handler: Any) -> None:
    """penstock.websocket."""
    from penstock import websocket

    async with websocket.serve(handler, "127.0.0.1", 0, compression=None) as server:
        await serve_until_stdin_ends(server.sockets[0].getsockname()[1])


async def serve_websockets() -> None:
    """websockets."""
    from websockets.asyncio.server import serve

    async with serve(echo, "127.0.0.1", 0, compression=None) as server:
        await serve_until_stdin_ends(next(iter(server.sockets)).getsockname()[1])


async def serve_picows() -> None:
    """picows: a callback for each frame, no tasks."""
    from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

    class Echo(WSListener):  # type: ignore[misc,unused-ignore]
        def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
            if frame.msg_type == WSMsgType.CLOSE:
                transport.send_close(frame.get_close_code(), frame.get_close_message())
                transport.disconnect()
            else:
                transport.send(frame.msg_type, frame.get_payload_as_memoryview())

    server = await ws_create_server(lambda request: Echo(), "127.0.0.1", 0)
    await serve_until_stdin_ends(server.sockets[0].getsockname()[1])


async def serve_picows_websockets() -> None:
    """The interface of websockets that picows has too: a task for each connection."""
    from picows.websockets import serve

    async with serve(echo, "127.0.0.1", 0, compression=None) as server:
        await serve_until_stdin_ends(next(iter(server.sockets)).getsockname()[1])


async def serve_aiohttp() -> None:
    """aiohttp's server."""
    from aiohttp import web

    async def handler(request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(compress=False)
        await response.prepare(request)
        async for message in response:
            await response.send_bytes(message.data)
        return response

    application = web.Application()
    application.router.add_get("/", handler)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        await serve_until_stdin_ends(runner.addresses[0][1])
    finally:
        await runner.cleanup()


# Each library on the loop that suits it best; picows also on asyncio's, for which it is written.
# Penstock calls a function for each message, as picows does, or resumes a task, as the others do.
SERVERS: dict[str, tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = {
    "penstock": ("penstock", functools.partial(serve_penstock, answer)),
    "penstock-async-for": ("penstock", functools.partial(serve_penstock, echo)),
    "picows on uvloop": ("uvloop", serve_picows),
    "picows": ("asyncio", serve_picows),
    "picows.websockets on uvloop": ("uvloop", serve_picows_websockets),
    "picows.websockets": ("asyncio", serve_picows_websockets),
    "websockets on uvloop": ("uvloop", serve_websockets),
    "websockets": ("asyncio", serve_websockets),
    "aiohttp on uvloop": ("uvloop", serve_aiohttp),
}


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(description="WebSocket echo by a chosen library")
    parser.add_argument("--server", required=True, choices=SERVERS)
    loop, serve = SERVERS[parser.parse_args().server]
    factory = loop_factory(loop)
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve())
    except ImportError as error:
        raise Unavailable(f"{error}; pip install 'penstock[bench]'") from error


if __name__ == "__main__":
    sys.exit(exit_code(main))
