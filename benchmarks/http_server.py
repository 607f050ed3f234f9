"""The HTTP servers of the http page: a short response by a chosen framework and event loop.

    python benchmarks/http_server.py --loop penstock --framework uvicorn

It listens on a free port of the loopback interface and prints it when it is ready.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    factory_path,
    loop_factory,
    loop_parser,
    serve_until_stdin_ends,
)

HELLO = "Hello, world!"

Message = MutableMapping[str, Any]


async def hello_asgi(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """The ASGI application."""
    body = HELLO.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def run_uvicorn(loop: str) -> None:
    """uvicorn with httptools. uvicorn creates the loop itself from its factory."""
    try:
        import httptools  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise Unavailable(f"{error}; pip install 'penstock[bench]'") from error

    loop_factory(loop)

    # The servers bind their sockets themselves. A socket of socket.create_server has no protocol
    # number; asyncio then leaves Nagle's algorithm on, and replies wait 40 ms for an ACK.
    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            self.ends = asyncio.create_task(self.end_with_stdin())

        async def end_with_stdin(self) -> None:
            await serve_until_stdin_ends(self.servers[0].sockets[0].getsockname()[1])
            self.should_exit = True

    config = uvicorn.Config(
        hello_asgi,
        host="127.0.0.1",
        port=0,
        http="httptools",
        loop=factory_path(loop),
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    Server(config).run()


def run_aiohttp(loop: str) -> None:
    """aiohttp's server."""
    try:
        from aiohttp import web
    except ImportError as error:
        raise Unavailable(f"{error}; pip install 'penstock[bench]'") from error

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=HELLO)

    async def serve() -> None:
        application = web.Application()
        application.router.add_get("/", hello)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            await serve_until_stdin_ends(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(serve())


FRAMEWORKS = {"uvicorn": run_uvicorn, "aiohttp": run_aiohttp}


def main() -> None:
    """Run the server."""
    parser = loop_parser("HTTP hello on a chosen event loop")
    parser.add_argument("--framework", required=True, choices=FRAMEWORKS)
    arguments = parser.parse_args()
    try:
        FRAMEWORKS[arguments.framework](arguments.loop)
    except (AttributeError, NotImplementedError) as error:
        raise Unavailable(f"the loop cannot run {arguments.framework}: {error!r}") from error


if __name__ == "__main__":
    sys.exit(exit_code(main))
