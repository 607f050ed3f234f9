"""An ASGI server (HTTP/1.1, HTTP/2 and WebSocket) on the native loop and codecs.

    async with penstock.asgi.serve(app, port=8000) as server:
        await server.serve_forever()

Requests are parsed and responses written by native code. Each request runs in a real asyncio task,
so everything that is written for asyncio or AnyIO works in an application. A WSGI application runs
in threads.
"""

from penstock._public_names import claim as _claim
from penstock.asgi._errors import ClientDisconnected, LifespanFailed
from penstock.asgi._server import Server, serve
from penstock.asgi._uvicorn import HttpProtocol, WebSocketProtocol
from penstock.asgi._wsgi.adapter import wsgi

__all__ = [
    "ClientDisconnected",
    "HttpProtocol",
    "LifespanFailed",
    "Server",
    "WebSocketProtocol",
    "serve",
    "wsgi",
]

_claim(globals())
