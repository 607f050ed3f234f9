"""Connecting to a WebSocket server."""

from __future__ import annotations

import asyncio
import re
import ssl as ssl_module
import urllib.parse
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any, Literal, cast

from penstock import _core
from penstock.websocket.connection import Connection
from penstock.websocket.datastructures import Headers, HeadersLike
from penstock.websocket.exceptions import (
    InvalidHeader,
    InvalidMessage,
    InvalidProtocol,
    InvalidStatus,
    InvalidUpgrade,
    InvalidURI,
    NegotiationError,
    SecurityError,
    without_credentials,
)
from penstock.websocket.http11 import Request, Response
from penstock.websocket.options import (
    ConnectionOptions,
    MaxQueue,
    MaxSize,
    WriteLimit,
    checked_compression,
    checked_seconds,
    checked_subprotocols,
    logger_or_own,
)
from penstock.websocket.protocol import Side, State
from penstock.websocket.proxy import open_http_tunnel, open_socks_socket, open_tls_inside
from penstock.websocket.reconnecting import backoff, process_exception
from penstock.websocket.typing import LoggerLike, PathLike
from penstock.websocket.uri import Address, ProxyAddress, proxy_of_environment

__all__ = ["ClientConnection", "connect", "unix_connect"]

_LARGEST_BODY = 1 << 20
_NO_LIMITS = (False, False, 15, 15)
_REDIRECTS = {300, 301, 302, 303, 307, 308}
_MOST_REDIRECTS = 10
# A connection that lasts as long is not a failed attempt: the delays begin anew.
_LASTING = 10.0
_SECRETS = ("Authorization", "Cookie", "Proxy-Authorization")
_OWN_FIELDS = {
    "upgrade": "",
    "connection": "",
    "sec-websocket-key": "",
    "sec-websocket-version": "",
    "sec-websocket-extensions": "; use the argument compression",
    "sec-websocket-protocol": "; use the argument subprotocols",
}


class ClientConnection(Connection):
    """A connection to a server."""

    side = Side.CLIENT


class _ClientHandshake(asyncio.Protocol):
    """Sends the request and becomes the connection when the response has arrived."""

    def __init__(
        self,
        connection: ClientConnection,
        request: bytes,
        key: str,
        subprotocols: tuple[str, ...],
        offered: bool,
    ) -> None:
        self.connection = connection
        self.done: asyncio.Future[None] = connection.loop.create_future()
        self._request = request
        self._key = key
        self._subprotocols = subprotocols
        self._offered = _NO_LIMITS if offered else None
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
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
                invalid = InvalidMessage(f"did not receive a valid HTTP response: {error.args[0]}")
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
            self._fail(_handshake_error(fault, response) if negotiated else NegotiationError(fault))
            return
        assert self._transport is not None
        connection = self.connection
        connection.response = response
        connection.subprotocol = next(
            iter(response.headers.get_all("Sec-WebSocket-Protocol")), None
        )
        own = None
        if deflate is not None:
            server_reset, client_reset, server_bits, client_bits, _ = deflate
            own = (client_bits, client_reset, server_bits, server_reset)
        connection._open(self._transport, own)
        self.done.set_result(None)
        if body:
            connection.data_received(body)


def _handshake_error(fault: str, response: Response) -> Exception:
    """Return the exception for a 101 that is not a WebSocket's."""
    for name in ("Upgrade", "Connection", "Sec-WebSocket-Accept"):
        if re.search(rf"\b{name}\b", fault.partition(":")[0]):
            value = ", ".join(response.headers.get_all(name)) or None
            kind = InvalidHeader if name == "Sec-WebSocket-Accept" else InvalidUpgrade
            return kind(name, value)
    return InvalidProtocol(fault)


class connect:  # a function for its users, who await it or enter it
    """Connect to a WebSocket server.

    There are three ways to use it:

    - `connection = await connect(uri)`.
    - `async with connect(uri) as connection` closes the connection at the end.
    - `async for connection in connect(uri)` connects again after a delay whenever the connection
      was lost or could not be opened. The delays grow while the server does not accept connections,
      or closes them at once. They begin anew after a connection that has lasted for 10 s or that
      this end has closed. The iteration raises an exception if another attempt would not help: for
      a status, of the server or a proxy, other than 500, 502, 503 and 504, and for an answer that
      is not a valid handshake.

    Redirects are followed, at most 10, but not from wss:// to ws://. Another server does not get
    the fields Authorization, Cookie and Proxy-Authorization of `additional_headers`.

    Works on any asyncio event loop; on Penstock's, messages cost less time.

    Args:
        uri: A ws:// or wss:// address; user and password become Basic authorization.
        origin: The value of the Origin field.
        extensions: None: permessage-deflate is the only extension, see `compression`.
        subprotocols: The subprotocols to offer, the preferred one first.
        compression: "deflate" offers permessage-deflate, if Penstock was built with zlib; None
            does not.
        additional_headers: Header fields to add to the request. They replace Host, Origin and
            Authorization.
        user_agent_header: The User-Agent field, if `additional_headers` has none; None sends none.
        proxy: True uses the proxy that the environment names, if any; None uses no proxy. Otherwise
            the proxy's address: http:// or https:// for CONNECT; socks5h://, socks5://, socks4a://
            or socks4:// with the package python-socks. Not used with `sock` or a Unix socket.
        process_exception: For `async for`: called with the exception of a failed attempt. Returns
            None if another attempt may succeed, else the exception to raise. It replaces the rule
            above.
        open_timeout: Seconds for connecting and the handshake; None has no limit.
        ping_interval: Seconds between keepalive pings; None sends none.
        ping_timeout: Seconds in which something must arrive after a ping, and in which the peer
            must read something while sends wait; otherwise the connection fails with 1011. While
            reading is paused, the first time does not run. None has no limit.
        close_timeout: Seconds for the closing handshake, after which the connection is aborted.
        reconnect_delays: For `async for`: returns an iterator of the delays, in seconds.
        max_size: The largest message in bytes, compressed or not. A larger one fails the connection
            with 1009. None has no limit. The first of a pair counts.
        max_queue: Messages that are received ahead before reading pauses; None has no limit. The
            second of a pair is the number at which reading goes on; by default a quarter of the
            first.
        write_limit: Bytes in the transport's buffer at which `send` waits. The second of a pair is
            the size at which it goes on. None keeps the event loop's limits.
        logger: The logger, or its name; that of the package by default.
        create_connection: Called instead of `ClientConnection` with the same arguments.
        ssl: The TLS context; True or None is the default one for wss://.
        server_hostname: The name in the server's certificate, if it is not the host.
        host: Connect to this host instead of the address's.
        port: Connect to this port instead of the address's.
        **kwargs: Passed to `loop.create_connection`, for example `sock` or `local_addr`, or with a
            proxy's connection to it. For TLS with an https:// proxy they begin with `proxy_`.

    Raises:
        InvalidURI: If `uri` is not a WebSocket address.
        InvalidProxy: If the proxy's address is not valid.
        OSError: If the connection fails.
        TimeoutError: If connecting and the handshake take longer than `open_timeout`.
        ProxyError: If the proxy refuses to connect.
        InvalidStatus: If the server answers with a status other than 101.
        SecurityError: If the server redirects from wss:// to ws://, or more than 10 times.
        NegotiationError: If the server selects a subprotocol or an extension that was not offered.
        InvalidHandshake: If the answer is otherwise invalid; base of the four above.
    """

    def __init__(
        self,
        uri: str,
        *,
        origin: str | None = None,
        extensions: Sequence[Any] | None = None,
        subprotocols: Sequence[str] | None = None,
        compression: str | None = "deflate",
        additional_headers: HeadersLike | None = None,
        user_agent_header: str | None = "penstock",
        proxy: str | Literal[True] | None = True,
        process_exception: Callable[[Exception], Exception | None] = process_exception,
        open_timeout: float | None = 10,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        reconnect_delays: Callable[[], Iterator[float]] = backoff,
        max_size: MaxSize = 1 << 20,
        max_queue: MaxQueue = 16,
        write_limit: WriteLimit = None,
        logger: LoggerLike | str | None = None,
        create_connection: Callable[..., ClientConnection] | None = None,
        ssl: ssl_module.SSLContext | bool | None = None,
        server_hostname: str | None = None,
        host: str | None = None,
        port: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._compression = checked_compression(compression, extensions) and bool(
            _core.websocket_deflate
        )
        self._options = ConnectionOptions(
            ping_interval,
            ping_timeout,
            close_timeout,
            max_size,
            max_queue,
            write_limit,
            logger_or_own(logger),
        )
        self._open_timeout = checked_seconds("open_timeout", open_timeout)
        self._address = Address.parse(uri)
        if ssl and not self._address.secure:
            raise ValueError("ssl is given with a ws:// address; use wss://")
        if ssl is False and self._address.secure:
            raise ValueError("ssl=False is given with a wss:// address; use ws://")
        self._origin = origin
        self._subprotocols = checked_subprotocols(subprotocols)
        self._additional = Headers(additional_headers or ())
        for name in self._additional:
            if name in _OWN_FIELDS:
                raise ValueError(
                    f"additional_headers has {name}, which the handshake sets{_OWN_FIELDS[name]}"
                )
        self._user_agent = user_agent_header
        self._unix = bool(kwargs.pop("unix", False))
        self._proxy = None if self._unix or kwargs.get("sock") is not None else proxy
        if self._proxy not in (None, True):
            ProxyAddress.parse(cast(str, self._proxy))
        self._process_exception = process_exception
        self._reconnect_delays = reconnect_delays
        self._create_connection = create_connection or ClientConnection
        self._ssl = ssl
        self._server_hostname = server_hostname
        self._host = host
        self._port = port
        self._arguments = kwargs
        self._connection: ClientConnection | None = None

    def __await__(self) -> Generator[Any, None, ClientConnection]:
        return self._connect().__await__()

    async def __aenter__(self) -> ClientConnection:
        if self._connection is not None:
            raise RuntimeError("this connect() is already entered; call connect() for another one")
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        await connection.__aexit__(exc_type, *exc_info)

    async def __aiter__(self) -> AsyncIterator[ClientConnection]:
        delays = self._reconnect_delays()
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with self as connection:
                    opened = loop.time()
                    yield connection
                    lost = _is_lost(connection)
                if not lost or loop.time() - opened >= _LASTING:
                    delays = self._reconnect_delays()
                if not lost:
                    continue
                cause = "the connection was lost"
            except Exception as error:
                fatal = self._process_exception(error)
                if fatal is error:
                    raise
                if fatal is not None:
                    raise fatal from error
                cause = str(error) or type(error).__name__
            delay = next(delays)
            self._options.logger.info("connecting again in %.1f s: %s", delay, cause)
            await asyncio.sleep(delay)

    def _request(self, address: Address, additional: Headers, key: str) -> Request:
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
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        # A server refuses a second Host, and takes another's place in the second Origin.
        for name in ("Host", "Origin", "Authorization"):
            if name in additional:
                headers.discard(name)
        headers.update(additional)
        if self._user_agent is not None:
            headers.setdefault("User-Agent", self._user_agent)
        return Request(address.target, headers)

    async def _connect(self) -> ClientConnection:
        try:
            async with asyncio.timeout(self._open_timeout) as limit:
                return await self._connect_following_redirects()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"not connected within {self._open_timeout} s") from error

    async def _connect_following_redirects(self) -> ClientConnection:
        # The next connection begins at the first address again.
        address, additional = self._address, self._additional
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                return await self._connect_to(address, additional)
            except InvalidStatus as error:
                before, address = address, self._redirected(address, error)
            if before.origin != address.origin:
                additional = additional.copy()
                for name in (*_SECRETS, "Host"):
                    additional.discard(name)
        shown = without_credentials(address.uri)
        raise SecurityError(f"more than {_MOST_REDIRECTS} redirects, the last to {shown}")

    def _redirected(self, before: Address, refusal: InvalidStatus) -> Address:
        """Return where the server sends the client; raise the refusal if that is nowhere."""
        locations = refusal.response.headers.get_all("Location")
        if refusal.response.status_code not in _REDIRECTS or not locations:
            raise refusal
        # urljoin resolves the path only for schemes that it knows.
        schemes = {"ws": "http", "wss": "https"}
        base = urllib.parse.urlsplit(before.uri)
        try:
            joined = urllib.parse.urlsplit(
                urllib.parse.urljoin(
                    base._replace(scheme=schemes[base.scheme]).geturl(), locations[0]
                )
            )
        except ValueError as error:
            raise InvalidURI(locations[0], "the server has redirected to it") from error
        scheme = {"http": "ws", "https": "wss"}.get(joined.scheme, joined.scheme)
        after = Address.parse(joined._replace(scheme=scheme).geturl())
        shown = without_credentials(after.uri)
        if before.secure and not after.secure:
            raise SecurityError(f"redirected from wss:// to {shown}") from refusal
        if self._arguments.get("sock") is not None:
            raise ValueError(
                f"redirected to {shown}, but the given socket is used up; connect another one"
            ) from refusal
        named = self._unix or self._host is not None or self._port is not None
        if named and before.origin != after.origin:
            raise ValueError(
                f"redirected to the other server {shown}, but the argument path, host or port"
                " names one; connect there without it"
            ) from refusal
        return after

    async def _connect_to(self, address: Address, additional: Headers) -> ClientConnection:
        loop = asyncio.get_running_loop()
        options = self._options
        connection = self._create_connection(
            loop,
            **options.arguments(),
        )
        key = _core.websocket_key()
        connection.request = self._request(address, additional, key)
        handshake = _ClientHandshake(
            connection,
            connection.request.serialize(),
            key,
            self._subprotocols,
            self._compression,
        )
        transport = await self._open_transport(address, handshake)
        try:
            await handshake.done
        except BaseException:
            transport.abort()
            raise
        return connection

    async def _open_transport(
        self, address: Address, handshake: _ClientHandshake
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        arguments = {k: v for k, v in self._arguments.items() if not k.startswith("proxy_")}
        if address.secure:
            arguments["ssl"] = True if self._ssl is None else self._ssl
            arguments["server_hostname"] = self._server_hostname or address.host
        if self._unix:
            transport, _ = await loop.create_unix_connection(lambda: handshake, **arguments)
            return transport
        proxy = proxy_of_environment(address) if self._proxy is True else self._proxy
        if proxy is not None:
            return await self._open_through(
                ProxyAddress.parse(proxy), address, handshake, arguments
            )
        if arguments.get("sock") is None:
            arguments["host"] = self._host or address.host
            arguments["port"] = self._port or address.port
        transport, _ = await loop.create_connection(lambda: handshake, **arguments)
        return transport

    async def _open_through(
        self,
        proxy: ProxyAddress,
        address: Address,
        handshake: _ClientHandshake,
        arguments: dict[str, Any],
    ) -> asyncio.Transport:
        if self._host is not None or self._port is not None:
            raise ValueError(
                "host and port name a server, but the proxy connects to that of the URI; pass"
                " proxy=None to connect to host and port directly"
            )
        inner = {k: arguments.pop(k) for k in list(arguments) if k.startswith(("ssl", "server_h"))}
        if proxy.scheme.startswith("socks"):
            sock = await open_socks_socket(proxy, address, arguments)
            loop = asyncio.get_running_loop()
            try:
                opened, _ = await loop.create_connection(lambda: handshake, sock=sock, **inner)
            except BaseException:
                sock.close()
                raise
            return opened
        for name, value in self._arguments.items():
            if name.startswith("proxy_"):
                arguments[name.removeprefix("proxy_")] = value
        transport = await open_http_tunnel(proxy, address, self._user_agent, arguments)
        context = inner.pop("ssl", None)
        transport.set_protocol(handshake)
        if context is not None:
            transport = await open_tls_inside(transport, handshake, context, inner)
            handshake.connection_made(transport)
        else:
            handshake.connection_made(transport)
            transport.resume_reading()
        return transport


def _is_lost(connection: ClientConnection) -> bool:
    """Return whether a connection has ended without a normal close by this end."""
    if connection.state is State.OPEN:
        return False
    sent = connection.close_sent
    return sent is None or connection._rcvd_then_sent is True or sent.code not in (1000, 1001)


def unix_connect(path: PathLike | None = None, uri: str | None = None, **kwargs: Any) -> connect:
    """Connect to a WebSocket server that listens on a Unix socket.

    Args:
        path: The socket's path; not needed with `sock`.
        uri: The address in the request: ws://localhost/ or, with `ssl`, wss://localhost/ if None.
        **kwargs: As for `connect`.
    """
    if uri is None:
        uri = "ws://localhost/" if kwargs.get("ssl") is None else "wss://localhost/"
    return connect(uri, unix=True, path=path, **kwargs)
