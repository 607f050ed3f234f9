"""The server, under the path of the module in `websockets`."""

from penstock.websocket.auth import basic_auth
from penstock.websocket.server import Server, ServerConnection, broadcast, serve, unix_serve

__all__ = ["Server", "ServerConnection", "basic_auth", "broadcast", "serve", "unix_serve"]
