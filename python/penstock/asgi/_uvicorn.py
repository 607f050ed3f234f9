"""The two protocols in uvicorn's places: `uvicorn --http penstock.asgi:HttpProtocol`.

uvicorn then reads its options, listens, runs the lifespan and closes; this server's native half
parses, runs the application and writes.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any
from urllib.parse import unquote

from penstock import _core
from penstock.asgi._connection import Connection, scope_of_transport
from penstock.asgi._fields import head_bytes
from penstock.asgi._log import access_line, reporter
from penstock.asgi._types import Scope
from penstock.asgi._websocket import WebSocketOptions, WebSocketSession

_ATTRIBUTE = "_penstock_owner"
_SWEEP_INTERVAL = 1.0


class _Owner:
    """What the connections of one uvicorn server share; kept in its `server_state`."""

    http2 = False

    def __init__(self, config: Any, server_state: Any, app_state: Any, loop: Any) -> None:
        self.config = config
        self.server_state = server_state
        self.app = config.loaded_app
        self.logger = logging.getLogger("uvicorn.error")
        self.root_path = config.root_path
        self.websockets: set[WebSocketSession] = set()
        self.websocket: WebSocketOptions | None = WebSocketOptions(
            max_size=config.ws_max_size,
            max_queue=config.ws_max_queue,
            # uvicorn takes 0 for none.
            ping_interval=config.ws_ping_interval or None,
            ping_timeout=config.ws_ping_timeout or None,
            per_message_deflate=config.ws_per_message_deflate,
        )
        # uvicorn renews its default fields, with the date, each second; here the native half does.
        self.fields = [
            (name.lower(), value.strip())
            for name, value in config.encoded_headers
            if name.lower() != b"date"
        ]
        self.sends_date = config.date_header
        self._log_start = access_line(logging.getLogger("uvicorn.access"))
        self._logs_access = config.access_log and logging.getLogger("uvicorn.access").hasHandlers()
        self._sweeping: asyncio.TimerHandle | None = None
        self.native = _core.HttpServer(
            loop,
            self.app,
            app_state,
            reporter(self.logger, lambda: None),
            log_start=self._on_start,
            on_refusal=self._on_start,
            fields=self.fields,
            date=self.sends_date,
            keep_alive=config.timeout_keep_alive,
            head_time=-1,
            body_time=-1,
            head_size=config.h11_max_incomplete_event_size or 65536,
            head_fields=128,
            limit_concurrency=config.limit_concurrency or 0,
            stall_time=-1,
            http2=self.http2,
            websockets=False,
            forwarded=None,  # its own layer does that
        )
        self.tasks = self.native.tasks
        server_state.tasks = self.tasks

    @classmethod
    def of(cls, config: Any, server_state: Any, app_state: Any, loop: Any) -> _Owner:
        loop = loop or asyncio.get_running_loop()
        owner = getattr(server_state, _ATTRIBUTE, None)
        if not config.loaded:
            config.load()
        if not isinstance(owner, cls) or owner.native.loop is not loop:
            owner = cls(config, server_state, app_state, loop)
            setattr(server_state, _ATTRIBUTE, owner)
        return owner

    def _on_start(self, scope: Scope, status: int) -> None:
        self.server_state.total_requests += 1
        if self._logs_access:
            self._log_start(scope, status)

    def on_websocket_end(self) -> None:
        """Nothing waits for that here: uvicorn looks at its `server_state`."""

    def sweep(self) -> None:
        self._sweeping = None
        self.native.sweep()
        self.begin_sweeping()

    def begin_sweeping(self) -> None:
        if self._sweeping is None and self.native.open_connections:
            self._sweeping = self.native.loop.call_later(_SWEEP_INTERVAL, self.sweep)


class HttpProtocol(Connection):
    """An HTTP/1.1 connection in uvicorn: `uvicorn --http penstock.asgi:HttpProtocol`.

    Args:
        config: uvicorn's Config.
        server_state: uvicorn's ServerState.
        app_state: The lifespan's state.
        _loop: The event loop; the running one by default.
    """

    __slots__ = ()
    _owner: _Owner

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_Owner.of(config, server_state, app_state, _loop))

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""
        super().connection_made(transport)
        self._owner.server_state.connections.add(self)
        self._owner.begin_sweeping()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits for the client."""
        self._owner.server_state.connections.discard(self)
        super().connection_lost(exc)

    def _on_websocket(self, scope: dict[str, Any], head: bytes, rest: bytes) -> bool:
        owner, transport = self._owner, self.transport
        if owner.config.ws_protocol_class is None or transport is None:
            return False
        owner.server_state.connections.discard(self)
        self._release()
        protocol = owner.config.ws_protocol_class(
            config=owner.config, server_state=owner.server_state, app_state=owner.native.state
        )
        protocol.connection_made(transport)
        if not isinstance(protocol, WebSocketProtocol):
            transport.set_protocol(protocol)
        protocol.data_received(head + rest)
        return True


class WebSocketProtocol(asyncio.Protocol):
    """A WebSocket connection in uvicorn: `uvicorn --ws penstock.asgi:WebSocketProtocol`.

    Args:
        config: uvicorn's Config.
        server_state: uvicorn's ServerState.
        app_state: The lifespan's state.
        _loop: The event loop; the running one by default.
    """

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._owner = _Owner.of(config, server_state, app_state, _loop)
        self._transport: asyncio.Transport | None = None
        self._session: WebSocketSession | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport
        self._owner.server_state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone before its request was whole."""
        self._owner.server_state.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Read the request; the session takes over after it."""
        transport = self._transport
        if self._session is not None or transport is None:
            return
        self._received += data
        try:
            # uvicorn's protocol for HTTP has accepted it.
            parsed = _core.parse_websocket_request(self._received, None, True)
        except ValueError as error:
            reason, status = error.args
            self._owner.logger.warning("Invalid HTTP request received: %s.", reason)
            own = [(b"connection", b"close"), (b"content-length", b"0")]
            transport.write(head_bytes(status, own, ()))
            transport.close()
            return
        if parsed is None:
            return
        scope = scope_of_transport(self._owner, transport)
        target = parsed[1]
        raw_path, _, query = target.partition("?")
        root = self._owner.root_path
        scope["path"] = root + unquote(raw_path)
        scope["raw_path"] = root.encode() + raw_path.encode("latin-1")
        scope["query_string"] = query.encode("latin-1")
        scope["headers"] = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in parsed[2]
        ]
        scope["state"] = dict(scope["state"] or {})
        scope["asgi"] = dict(scope["asgi"])
        self._session = WebSocketSession(
            self._owner, self._owner.native.loop, transport, scope, self._on_end
        )
        size = parsed[3]
        self._session.start(
            contextvars.copy_context(), self._received[:size], self._received[size:]
        )

    def _on_end(self) -> None:
        self._owner.server_state.connections.discard(self)

    def shutdown(self) -> None:
        """Tell the client that the server restarts."""
        if self._session is not None:
            self._session.shut_down()
        elif self._transport is not None:
            self._transport.close()
