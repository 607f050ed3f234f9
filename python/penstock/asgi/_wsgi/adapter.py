"""The ASGI application around a WSGI application."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.asgi._types import Application, Receive, Scope, Send
from penstock.asgi._wsgi.body import open_body
from penstock.asgi._wsgi.environ import constant_part, fill_environ
from penstock.asgi._wsgi.exchange import Exchange, Outbox
from penstock.asgi._wsgi.response import Response, WsgiApplication
from penstock.asgi._wsgi.threads import Threads

_JOIN_SECONDS = 5.0
_TOO_MANY = b"Service Unavailable"


def wsgi(
    app: WsgiApplication, *, threads: int = 16, waiting: int = 1024, multiprocess: bool = False
) -> Application:
    """Return an ASGI application that runs a WSGI application (PEP 3333) in a pool of threads.

    The request's body is received as the application reads `wsgi.input`. Each part of the response
    is sent before the application is asked for the next part. The kernel sends a file in
    `wsgi.file_wrapper`, where the server supports that. While the client reads too slowly, the
    thread waits. After the client has disconnected, reads and writes raise `ClientDisconnected`, an
    OSError, and the iteration ends. `close` of the returned iterable is called in any case, in the
    same thread.

    Works on any ASGI server. `serve` and `penstock serve` call this function for a WSGI application
    by themselves. The threads end with the lifespan.

    Args:
        app: `app(environ, start_response)`, which may be called in several threads at once.
        threads: The largest number of threads that run the application.
        waiting: Requests that may wait for a thread; further ones are answered with status 503.
        multiprocess: The value of `wsgi.multiprocess`: whether other processes run the application
            too.

    Raises:
        ValueError: If a number is out of its range.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    if waiting < 0:
        raise ValueError(f"waiting must be at least 0, not {waiting}")
    environ = constant_part(multiprocess=multiprocess)
    return _Adapter(app, environ, lambda: Threads(threads, waiting))


class _Adapter:
    def __init__(
        self, app: WsgiApplication, environ: dict[str, Any], make_threads: Callable[[], Threads]
    ) -> None:
        self._app = app
        self._environ = environ
        self._make_threads = make_threads
        self._threads = make_threads()
        self._outbox: Outbox | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            outbox, loop = self._outbox, asyncio.get_running_loop()
            if outbox is None or outbox.loop is not loop:
                outbox = self._outbox = Outbox(loop)
            exchange = Exchange(outbox, scope, receive, send)
            context = contextvars.copy_context()
            if self._threads.submit(partial(context.run, self._run, exchange)):
                await exchange.drive()
            else:
                await _refuse(send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close"})

    def _run(self, exchange: Exchange) -> None:
        environ = self._environ.copy()
        try:
            fill_environ(environ, exchange.scope)
            environ["wsgi.input"] = open_body(exchange)
            response = Response(exchange)
        except Exception as error:
            exchange.end(error=error)
        else:
            response.run(self._app, environ)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.startup" and self._threads.ended:
                self._threads = self._make_threads()  # it is served once more
            if kind == "lifespan.shutdown":
                self._threads.end()
                # A thread that is stuck in the application is left behind.
                await asyncio.to_thread(self._threads.join, _JOIN_SECONDS)
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _TOO_MANY})
