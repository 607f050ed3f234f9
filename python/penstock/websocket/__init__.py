"""WebSocket client and server (RFC 6455, RFC 7692), with the interface of `websockets`.

    async with penstock.websocket.connect("ws://localhost:8765") as connection:
        await connection.send("hello")
        print(await connection.recv())

Frames are decoded and encoded by native code. Both functions work on any asyncio event loop; on
Penstock's, received bytes reach the decoder without an object in between, and a message resumes the
task that waits for it directly.
"""

from penstock.websocket.client import connect
from penstock.websocket.connection import Connection, Data, State
from penstock.websocket.exceptions import (
    Close,
    ConcurrencyError,
    ConnectionClosed,
    ConnectionClosedError,
    ConnectionClosedOK,
    InvalidHandshake,
    InvalidMessage,
    InvalidOrigin,
    InvalidStatus,
    InvalidUpgrade,
    InvalidURI,
    NegotiationError,
    WebSocketException,
)
from penstock.websocket.http import Headers, Request, Response
from penstock.websocket.server import Server, ServerConnection, broadcast, serve

__all__ = [
    "Close",
    "ConcurrencyError",
    "Connection",
    "ConnectionClosed",
    "ConnectionClosedError",
    "ConnectionClosedOK",
    "Data",
    "Headers",
    "InvalidHandshake",
    "InvalidMessage",
    "InvalidOrigin",
    "InvalidStatus",
    "InvalidURI",
    "InvalidUpgrade",
    "NegotiationError",
    "Request",
    "Response",
    "Server",
    "ServerConnection",
    "State",
    "WebSocketException",
    "broadcast",
    "connect",
    "serve",
]
