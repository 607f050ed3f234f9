"""An ASGI server (HTTP/1.1, HTTP/2 and WebSocket) on the native loop and codecs.

    async with penstock.asgi.serve(app, port=8000) as server:
        await server.serve_forever()

Requests are parsed and responses written by native code. Each request runs in a real asyncio task,
so everything that is written for asyncio or AnyIO works in an application. A WSGI application runs
in threads.
"""

from penstock._public_names import claim as _claim
from penstock.asgi._compression import Compressed
from penstock.asgi._errors import ClientDisconnected, LifespanFailed, is_disconnect
from penstock.asgi._interfaces import as_asgi3
from penstock.asgi._log import client_text, quoted_path
from penstock.asgi._options import ServerOptions
from penstock.asgi._server import Server, serve
from penstock.asgi._static import StaticFiles
from penstock.asgi._types import Application, Message, Receive, Scope, Send
from penstock.asgi._uvicorn import HttpProtocol, WebSocketProtocol
from penstock.asgi._wsgi.adapter import wsgi

__all__ = [
    "Application",
    "ClientDisconnected",
    "Compressed",
    "HttpProtocol",
    "LifespanFailed",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "Server",
    "ServerOptions",
    "StaticFiles",
    "WebSocketProtocol",
    "as_asgi3",
    "client_text",
    "is_disconnect",
    "quoted_path",
    "serve",
    "wsgi",
]

_claim(globals())
