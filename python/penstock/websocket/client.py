"""Connecting to a WebSocket server."""

from __future__ import annotations

import asyncio
import base64
import ssl as ssl_module
import urllib.parse
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from penstock import _core
from penstock.websocket.connection import Connection, check_limits, checked_subprotocols
from penstock.websocket.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidUpgrade,
    InvalidURI,
    NegotiationError,
)
from penstock.websocket.http import Headers, HeadersLike, Request, Response

__all__ = ["connect"]

_LARGEST_BODY = 1 << 20
_TEMPORARY = {500, 502, 503, 504}
_NO_LIMITS = (False, False, 15, 15)


@dataclass(frozen=True)
class _Address:
    secure: bool
    host: str
    port: int
    target: str
    authority: str
    credentials: str | None

    @classmethod
    def parse(cls, uri: str) -> _Address:
        try:
            parts = urllib.parse.urlsplit(uri)
            port = parts.port
            uri.encode()
        except ValueError as error:
            raise InvalidURI(uri, str(error)) from None
        if parts.scheme not in ("ws", "wss"):
            raise InvalidURI(uri, "its scheme must be ws or wss")
        if not parts.hostname:
            raise InvalidURI(uri, "it has no host")
        if parts.fragment:
            raise InvalidURI(uri, "it has a fragment, which is not sent")
        secure = parts.scheme == "wss"
        port = port or (443 if secure else 80)
        host = parts.hostname
        if not host.isascii():
            try:
                host = host.encode("idna").decode()
            except UnicodeError as error:
                raise InvalidURI(uri, f"its host is no name: {error}") from None
        authority = f"[{host}]" if ":" in host else host
        if port != (443 if secure else 80):
            authority += f":{port}"
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        credentials = None
        if parts.username is not None:
            user = urllib.parse.unquote(parts.username)
            password = urllib.parse.unquote(parts.password or "")
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        quoted = urllib.parse.quote(target, safe="/?:@!$&'()*+,;=%-._~")
        return cls(secure, host, port, quoted, authority, credentials)


class _ClientHandshake(asyncio.Protocol):
    """Sends the request and becomes the connection when the response has arrived."""

    def __init__(
        self,
        connection: Connection,
        request: bytes,
        key: str,
        subprotocols: tuple[str, ...],
        offered: bool,
        max_size: int | None,
        max_queue: int | None,
    ) -> None:
        self.connection = connection
        self.done: asyncio.Future[None] = connection.loop.create_future()
        self._request = request
        self._key = key
        self._subprotocols = subprotocols
        self._offered = _NO_LIMITS if offered else None
        self._max_size = max_size
        self._max_queue = max_queue
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._parse(ended=False)

    def eof_received(self) -> None:
        self._parse(ended=True)
        if not self.done.done():
            self._fail(InvalidMessage("the server closed the connection during the handshake"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or InvalidMessage("the connection was lost during the handshake"))

    def _fail(self, exception: Exception) -> None:
        self._end(exception)
        if self._transport is not None:
            self._transport.close()

    def _end(self, exception: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(exception)
            self.done.exception()  # nobody waits for it if the call was cancelled before

    def _parse(self, ended: bool) -> None:
        if self.done.done():
            return
        while True:
            try:
                parsed = _core.parse_websocket_response(
                    self._received, self._key, self._subprotocols, self._offered
                )
            except ValueError as error:
                invalid = InvalidMessage(f"did not receive a valid HTTP response: {error}")
                invalid.__cause__ = error
                self._fail(invalid)
                return
            if parsed is None:
                return
            status, reason, fields, size, fault, negotiated, deflate, length = parsed
            if status >= 200 or status == 101:
                break
            self._received = self._received[size:]
        body = self._received[size:]
        response = Response(status, reason, Headers(fields))
        if status != 101:
            if length == _core.CHUNKED:
                response.body, complete = _core.decode_chunked(body, _LARGEST_BODY)
            else:
                wanted = _LARGEST_BODY
                if length != _core.UNTIL_CLOSE:
                    wanted = min(length, _LARGEST_BODY)
                response.body = body[:wanted]
                complete = len(body) >= wanted
            if complete or ended:
                self._fail(InvalidStatus(response))
            return
        if fault:
            self._fail(InvalidUpgrade(fault) if negotiated else NegotiationError(fault))
            return
        assert self._transport is not None
        connection = self.connection
        connection.response = response
        connection.subprotocol = response.headers.get("Sec-WebSocket-Protocol")
        own = None
        if deflate is not None:
            server_reset, client_reset, server_bits, client_bits, _ = deflate
            own = (client_bits, client_reset, server_bits, server_reset)
        connection._open(self._transport, self._max_size, self._max_queue, own)
        self.done.set_result(None)
        if body:
            connection.data_received(body)


def _is_temporary(error: Exception) -> bool:
    """Return whether another attempt to connect may succeed."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in _TEMPORARY
    # The server has ended the connection, or does not speak HTTP.
    if isinstance(error, InvalidMessage):
        return error.__cause__ is None
    return not isinstance(error, InvalidHandshake)


class connect:  # a function for its users, who await it or enter it
    """Connect to a WebSocket server.

    Use it as `connection = await connect(uri)`, as `async with connect(uri) as connection`, which
    closes the connection at the end, or as `async for connection in connect(uri)`, which connects
    again after a delay whenever the connection was lost. It raises what another attempt would not
    mend: a status other than 500, 502, 503 and 504, and an answer that is no valid handshake.

    Works on any asyncio event loop; on Penstock's, messages take a shorter way.

    Args:
        uri: A ws:// or wss:// address; user and password become Basic authorization.
        origin: The value of the Origin field.
        subprotocols: The subprotocols to offer, the preferred one first.
        compression: "deflate" offers permessage-deflate, if Penstock was built with zlib; None
            does not.
        additional_headers: Header fields to add to the request.
        user_agent_header: The User-Agent field, if `additional_headers` has none; None sends none.
        open_timeout: Seconds for connecting and the handshake; None has no limit.
        ping_interval: Seconds between keepalive pings; None sends none.
        ping_timeout: Seconds for the answer to one, after which the connection fails with 1011.
        close_timeout: Seconds for the closing handshake, after which the connection is aborted.
        max_size: Bytes of a message, also decompressed, beyond which the connection fails with
            1009; None has no limit.
        max_queue: Messages that are received ahead before reading pauses; None has no limit.
        ssl: The TLS context; True or None is the default one for wss://.
        server_hostname: The name in the server's certificate, if it is not the host.
        host: Connect to this host instead of the address's.
        port: Connect to this port instead of the address's.
        **kwargs: Passed to `loop.create_connection`, for example `sock` or `local_addr`.

    Raises:
        InvalidURI: If the address is invalid.
        OSError: If the connection fails.
        TimeoutError: If it takes longer than `open_timeout`.
        InvalidStatus: If the server answers with a status other than 101.
        NegotiationError: If it selects a subprotocol or an extension that was not offered.
        InvalidHandshake: If its answer is otherwise invalid; base of these two.
    """

    def __init__(
        self,
        uri: str,
        *,
        origin: str | None = None,
        subprotocols: Sequence[str] | None = None,
        compression: str | None = "deflate",
        additional_headers: HeadersLike | None = None,
        user_agent_header: str | None = "penstock",
        open_timeout: float | None = 10,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        max_size: int | None = 1 << 20,
        max_queue: int | None = 16,
        ssl: ssl_module.SSLContext | bool | None = None,
        server_hostname: str | None = None,
        host: str | None = None,
        port: int | None = None,
        **kwargs: Any,
    ) -> None:
        if compression not in ("deflate", None):
            raise ValueError(f"compression is 'deflate' or None, not {compression!r}")
        check_limits(max_size, max_queue)
        self._address = _Address.parse(uri)
        if ssl and not self._address.secure:
            raise ValueError("ssl is given with a ws:// address; use wss://")
        if ssl is False and self._address.secure:
            raise ValueError("ssl=False is given with a wss:// address; use ws://")
        self._origin = origin
        self._subprotocols = checked_subprotocols(subprotocols)
        self._compression = compression is not None and bool(_core.websocket_deflate)
        self._additional = additional_headers
        self._user_agent = user_agent_header
        self._open_timeout = open_timeout
        self._timeouts = {
            "ping_interval": ping_interval,
            "ping_timeout": ping_timeout,
            "close_timeout": close_timeout,
        }
        self._max_size = max_size
        self._max_queue = max_queue
        self._ssl = ssl
        self._server_hostname = server_hostname
        self._host = host
        self._port = port
        self._arguments = kwargs
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._connect().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._connect()
        return await self._connection.__aenter__()

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(exc_type, *exc_info)

    async def __aiter__(self) -> AsyncIterator[Connection]:
        delay = 0.1
        while True:
            try:
                async with self as connection:
                    delay = 0.1
                    yield connection
            except (OSError, TimeoutError, InvalidHandshake) as error:
                if not _is_temporary(error):
                    raise
                await asyncio.sleep(delay)
                delay = min(delay * 2, 60.0)

    def _request(self, key: str) -> Request:
        address = self._address
        headers = Headers(
            {
                "Host": address.authority,
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Key": key,
                "Sec-WebSocket-Version": "13",
            }
        )
        if self._origin is not None:
            headers["Origin"] = self._origin
        if self._compression:
            headers["Sec-WebSocket-Extensions"] = "permessage-deflate; client_max_window_bits"
        if self._subprotocols:
            headers["Sec-WebSocket-Protocol"] = ", ".join(self._subprotocols)
        if address.credentials is not None:
            headers["Authorization"] = f"Basic {address.credentials}"
        if self._additional is not None:
            headers.update_from(self._additional)
        if self._user_agent is not None:
            headers.setdefault("User-Agent", self._user_agent)
        return Request(address.target, headers)

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._open_timeout) as limit:
                return await self._connect_without_limit()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"not connected within {self._open_timeout} s") from error

    async def _connect_without_limit(self) -> Connection:
        loop = asyncio.get_running_loop()
        connection = Connection(loop, client=True, **self._timeouts)
        key = _core.websocket_key()
        connection.request = self._request(key)
        request = (
            f"GET {connection.request.path} HTTP/1.1\r\n".encode()
            + connection.request.headers.serialize()
        )
        handshake = _ClientHandshake(
            connection,
            request,
            key,
            self._subprotocols,
            self._compression,
            self._max_size,
            self._max_queue,
        )
        arguments = dict(self._arguments)
        if self._address.secure:
            arguments["ssl"] = True if self._ssl is None else self._ssl
            arguments["server_hostname"] = self._server_hostname or self._address.host
        if "sock" not in arguments:
            arguments["host"] = self._host or self._address.host
            arguments["port"] = self._port or self._address.port
        transport, _ = await loop.create_connection(lambda: handshake, **arguments)
        try:
            await handshake.done
        except BaseException:
            transport.abort()
            raise
        return connection
