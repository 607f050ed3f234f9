"""The protocol of a connection: the native half with what differs in each server."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Protocol

from penstock import _core
from penstock.asgi._errors import ClientDisconnected
from penstock.asgi._tls import tls_extension
from penstock.asgi._websocket import WebSocketOwner, WebSocketSession

__all__ = ["Connection", "Owner", "scope_of_transport"]

SPEC_VERSION = "2.5"
_PART = 1 << 17


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
    tls = transport.get_extra_info("ssl_object")
    extensions: dict[str, Any] = {"http.response.pathsend": {}, "http.response.early_hint": {}}
    if tls is not None:
        extensions["tls"] = tls_extension(tls)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": SPEC_VERSION},
        "http_version": "1.1",
        "server": _own_address(transport.get_extra_info("sockname")),
        "client": _address(transport.get_extra_info("peername")),
        "scheme": "http" if tls is None else "https",
        "root_path": owner.root_path,
        "method": "",
        "path": "",
        "raw_path": b"",
        "query_string": b"",
        "headers": [],
        "state": owner.native.state,
        "extensions": extensions,
    }


class Connection(_core.HttpConnection):
    """An HTTP/1.1 connection."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""
        self._start(self._owner.native, transport, scope_of_transport(self._owner, transport))

    async def _send_path(self, request: Any, path: str) -> None:
        # Called by the native half for http.response.pathsend. A file that cannot be opened raises
        # before anything is written.
        loop = self._owner.native.loop
        file = await loop.run_in_executor(None, open, path, "rb")
        try:
            size = os.fstat(file.fileno()).st_size
            transport = self.transport
            if request._begin_file(size) and transport is not None:
                try:
                    sent = await loop.sendfile(transport, file, 0, size)
                except NotImplementedError:  # uvloop
                    sent = await self._copy_file(request, transport, file, size)
                except (ConnectionError, RuntimeError) as error:
                    if self.transport is not None and not self.transport.is_closing():
                        raise
                    raise ClientDisconnected("the client has closed the connection") from error
                if sent != size:
                    raise RuntimeError(f"{path} has become shorter while it was sent")
            request._end_file()
        finally:
            file.close()

    async def _copy_file(
        self, request: Any, transport: asyncio.Transport, file: Any, size: int
    ) -> int:
        left = size
        while left and (
            part := await self._owner.native.loop.run_in_executor(None, file.read, min(left, _PART))
        ):
            transport.write(part)
            left -= len(part)
            await request._room()
        return size - left

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
