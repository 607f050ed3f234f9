"""Connecting through a proxy: HTTP CONNECT, and SOCKS by the package python-socks."""

from __future__ import annotations

import asyncio
import importlib
import socket
import ssl as ssl_module
from typing import Any, cast

from penstock import _core
from penstock.websocket.datastructures import Headers
from penstock.websocket.exceptions import InvalidProxyMessage, InvalidProxyStatus, ProxyError
from penstock.websocket.http11 import Response
from penstock.websocket.uri import Address, ProxyAddress

__all__ = ["open_http_tunnel", "open_socks_socket"]


class _Tunnel(asyncio.Protocol):
    """Asks an HTTP proxy for a tunnel, and is replaced when there is one."""

    def __init__(self, request: bytes, opened: asyncio.Future[bytes]) -> None:
        self._request = request
        self._opened = opened
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._opened.done():
            return
        self._received += data
        while True:
            try:
                parsed = _core.parse_websocket_response(self._received, "", (), None)
            except ValueError as error:
                self._fail(f"the proxy's answer is not valid HTTP: {error.args[0]}", error)
                return
            if parsed is None:
                return
            status, reason, fields, size, *_ = parsed
            if status >= 200:
                break
            self._received = self._received[size:]
        rest = self._received[size:]
        if status >= 300:
            response = Response(status, reason, Headers(fields), rest)
            self._opened.set_exception(InvalidProxyStatus(response))
            return
        # The length of a body means nothing here (RFC 9110, 9.3.6). The server's first bytes, which
        # come with TLS only after the client's, are those of the tunnel.
        self._transport.pause_reading()
        self._opened.set_result(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the proxy closed the connection before it answered", exc)

    def _fail(self, text: str, cause: Exception | None = None) -> None:
        if not self._opened.done():
            error = InvalidProxyMessage(text)
            error.__cause__ = cause
            self._opened.set_exception(error)


async def open_http_tunnel(
    proxy: ProxyAddress, address: Address, user_agent: str | None, arguments: dict[str, Any]
) -> asyncio.Transport:
    """Return a transport on which the server answers.

    Args:
        proxy: The proxy.
        address: The server.
        user_agent: The User-Agent field, or None.
        arguments: Further ones of `loop.create_connection`, for the connection to the proxy.

    Raises:
        OSError: If there is no connection to the proxy.
        InvalidProxyStatus: If it refuses.
        InvalidProxyMessage: If its answer is not HTTP.
    """
    loop = asyncio.get_running_loop()
    headers = Headers({"Host": address.endpoint})
    if user_agent is not None:
        headers["User-Agent"] = user_agent
    if proxy.authorization is not None:
        headers["Proxy-Authorization"] = proxy.authorization
    request = f"CONNECT {address.endpoint} HTTP/1.1\r\n".encode() + headers.serialize()
    if proxy.scheme == "https":
        if arguments.get("ssl") is None:
            arguments["ssl"] = True
        arguments.setdefault("server_hostname", proxy.host)
    elif arguments.get("ssl") is not None:
        raise ValueError("proxy_ssl is given with an http:// proxy; use https://")
    opened: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_connection(
        lambda: _Tunnel(request, opened), proxy.host, proxy.port, **arguments
    )
    try:
        if rest := await opened:
            raise InvalidProxyMessage("the proxy sent bytes after its answer") from ValueError(
                f"{len(rest)} bytes"
            )
    except BaseException:
        transport.abort()
        raise
    return transport


async def open_tls_inside(
    transport: asyncio.Transport,
    protocol: asyncio.Protocol,
    context: ssl_module.SSLContext | bool,
    arguments: dict[str, Any],
) -> asyncio.Transport:
    """Begin TLS with the server in a tunnel."""
    if isinstance(context, bool):
        context = ssl_module.create_default_context()
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(transport, protocol, context, **arguments)
    except BaseException:
        transport.abort()
        raise
    assert secured is not None
    return secured


async def open_socks_socket(
    proxy: ProxyAddress, address: Address, arguments: dict[str, Any]
) -> socket.socket:
    """Return a socket on which the server answers.

    Raises:
        ImportError: If the package python-socks is missing.
        OSError: If there is no connection to the proxy.
        ProxyError: If it refuses.
    """
    try:
        kinds = importlib.import_module("python_socks")
        client = importlib.import_module("python_socks.async_.asyncio")
    except ImportError as error:
        raise ImportError(
            "a SOCKS proxy needs the package python-socks; install penstock[socks], or pass"
            " proxy=None"
        ) from error
    kind = kinds.ProxyType.SOCKS4 if proxy.scheme.startswith("socks4") else kinds.ProxyType.SOCKS5
    # With socks5h and socks4a the proxy looks the name up.
    by_proxy = proxy.scheme in ("socks5h", "socks4a")
    socks = client.Proxy(kind, proxy.host, proxy.port, proxy.username, proxy.password, by_proxy)
    try:
        return cast(socket.socket, await socks.connect(address.host, address.port, **arguments))
    except (OSError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise ProxyError(
            f"the SOCKS proxy did not connect to {address.endpoint}: {error}"
        ) from error
