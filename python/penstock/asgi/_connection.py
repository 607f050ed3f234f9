"""The protocol of a connection: the native half with what differs in each server."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from penstock import _core
from penstock.asgi._websocket import WebSocketOwner, WebSocketSession

__all__ = ["Connection", "Owner", "scope_of_transport"]

SPEC_VERSION = "2.5"


class Owner(WebSocketOwner, Protocol):
    """The server of a connection."""

    native: _core.HttpServer
    root_path: str


def _address(value: Any) -> tuple[str, int] | None:
    if isinstance(value, tuple) and len(value) >= 2:
        return (str(value[0]), int(value[1]))
    return None


def _own_address(value: Any) -> tuple[str, int | None] | None:
    if isinstance(value, str | bytes) and value:
        return (value.decode(errors="replace") if isinstance(value, bytes) else value, None)
    return _address(value)


def scope_of_transport(owner: Owner, transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return a scope with all its keys, and the values that all requests share."""
    secure = transport.get_extra_info("sslcontext") is not None
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": SPEC_VERSION},
        "http_version": "1.1",
        "server": _own_address(transport.get_extra_info("sockname")),
        "client": _address(transport.get_extra_info("peername")),
        "scheme": "https" if secure else "http",
        "root_path": owner.root_path,
        "method": "",
        "path": "",
        "raw_path": b"",
        "query_string": b"",
        "headers": [],
        "state": owner.native.state,
        "extensions": {},
    }


class Connection(_core.HttpConnection):
    """An HTTP/1.1 connection."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""
        self._start(self._owner.native, transport, scope_of_transport(self._owner, transport))

    def _on_websocket(self, scope: dict[str, Any], head: bytes, rest: bytes) -> bool:
        # Called by the native half. Returns whether the connection is no longer its own.
        owner = self._owner
        transport = self.transport
        if owner.websocket is None or transport is None:
            return False
        self._release()
        session = WebSocketSession(owner, owner.native.loop, transport, scope)
        session.start(self._context, head, rest)
        return True
