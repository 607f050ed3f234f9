"""WebSocket client and server (RFC 6455, RFC 7692), with the interface of `websockets`.

    async with penstock.websocket.connect("ws://localhost:8765") as connection:
        await connection.send("hello")
        print(await connection.recv())

Frames are decoded and encoded by native code. Both functions work on any asyncio event loop; on
Penstock's, received bytes reach the decoder without an object in between, and a message resumes the
task that waits for it directly. `penstock.websocket.sync` has the blocking client and server.
"""

from penstock.websocket.auth import basic_auth
from penstock.websocket.client import ClientConnection, connect, unix_connect
from penstock.websocket.connection import Connection
from penstock.websocket.datastructures import Headers, HeadersLike, MultipleValuesError
from penstock.websocket.exceptions import (
    ConcurrencyError,
    ConnectionClosed,
    ConnectionClosedError,
    ConnectionClosedOK,
    DuplicateParameter,
    HeaderLineTooLong,
    InvalidHandshake,
    InvalidHeader,
    InvalidHeaderFormat,
    InvalidHeaderValue,
    InvalidMessage,
    InvalidMethod,
    InvalidOrigin,
    InvalidParameterName,
    InvalidParameterValue,
    InvalidProtocol,
    InvalidProxy,
    InvalidProxyMessage,
    InvalidProxyStatus,
    InvalidState,
    InvalidStatus,
    InvalidUpgrade,
    InvalidURI,
    NegotiationError,
    PayloadTooBig,
    ProtocolError,
    ProxyError,
    RequestLineTooLong,
    SecurityError,
    StatusLineTooLong,
    TooManyFragments,
    TooManyHeaders,
    WebSocketException,
)
from penstock.websocket.frames import Close, CloseCode, Opcode
from penstock.websocket.http11 import Request, Response
from penstock.websocket.protocol import Side, State
from penstock.websocket.router import Router, route, unix_route
from penstock.websocket.server import Server, ServerConnection, broadcast, serve, unix_serve
from penstock.websocket.typing import (
    Data,
    DataLike,
    ExtensionName,
    ExtensionParameter,
    LoggerLike,
    Origin,
    StatusLike,
    Subprotocol,
)

__all__ = [
    "ClientConnection",
    "Close",
    "CloseCode",
    "ConcurrencyError",
    "Connection",
    "ConnectionClosed",
    "ConnectionClosedError",
    "ConnectionClosedOK",
    "Data",
    "DataLike",
    "DuplicateParameter",
    "ExtensionName",
    "ExtensionParameter",
    "HeaderLineTooLong",
    "Headers",
    "HeadersLike",
    "InvalidHandshake",
    "InvalidHeader",
    "InvalidHeaderFormat",
    "InvalidHeaderValue",
    "InvalidMessage",
    "InvalidMethod",
    "InvalidOrigin",
    "InvalidParameterName",
    "InvalidParameterValue",
    "InvalidProtocol",
    "InvalidProxy",
    "InvalidProxyMessage",
    "InvalidProxyStatus",
    "InvalidState",
    "InvalidStatus",
    "InvalidURI",
    "InvalidUpgrade",
    "LoggerLike",
    "MultipleValuesError",
    "NegotiationError",
    "Opcode",
    "Origin",
    "PayloadTooBig",
    "ProtocolError",
    "ProxyError",
    "Request",
    "RequestLineTooLong",
    "Response",
    "Router",
    "SecurityError",
    "Server",
    "ServerConnection",
    "Side",
    "State",
    "StatusLike",
    "StatusLineTooLong",
    "Subprotocol",
    "TooManyFragments",
    "TooManyHeaders",
    "WebSocketException",
    "basic_auth",
    "broadcast",
    "connect",
    "route",
    "serve",
    "unix_connect",
    "unix_route",
    "unix_serve",
]
