"""The protocol of a connection: the native half with what differs in each server."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import stat
from typing import Any, BinaryIO, Protocol

from penstock import _core
from penstock.asgi._errors import ClientDisconnected
from penstock.asgi._http2_websocket import serve_websocket
from penstock.asgi._tls import tls_extension
from penstock.asgi._websocket import WebSocketOwner, WebSocketSession

SPEC_VERSION = "2.5"
_PART = 1 << 17

# All connections share these: each request has a copy.
_ASGI = {"version": "3.0", "spec_version": SPEC_VERSION}
_EXTENSIONS: dict[str, Any] = {
    "http.response.pathsend": {},
    "http.response.zerocopysend": {},
    "http.response.early_hint": {},
}


class Owner(WebSocketOwner, Protocol):
    """The server of a connection."""

    native: _core.HttpServer
    root_path: str
    http2: bool


def _address(value: Any) -> tuple[str, int] | None:
    if isinstance(value, tuple) and len(value) >= 2:
        return (str(value[0]), int(value[1]))
    return None


# Most connections of a server have come to the same address.
@functools.lru_cache(16)
def _own_address(value: Any) -> tuple[str, int | None] | None:
    if isinstance(value, str | bytes) and value:
        return (value.decode(errors="replace") if isinstance(value, bytes) else value, None)
    return _address(value)


def scope_of_transport(owner: Owner, transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return a scope with all its keys, and the values that all requests share."""
    tls = transport.get_extra_info("ssl_object")
    extensions = _EXTENSIONS if tls is None else {**_EXTENSIONS, "tls": tls_extension(tls)}
    return {
        "type": "http",
        "asgi": _ASGI,
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


def _open_file(path: str) -> BinaryIO:
    # To open a pipe would wait for its writer, and a directory or a device has no size.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(path, "rb")


def _speaks_http2(transport: asyncio.BaseTransport) -> bool | None:
    """Return whether the client has chosen HTTP/2; None if it does so by how it begins."""
    tls = transport.get_extra_info("ssl_object")
    return None if tls is None else tls.selected_alpn_protocol() == "h2"


class Connection(_core.HttpConnection):
    """A connection of HTTP/1.1, or of HTTP/2 where the server's owner offers it."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""
        owner = self._owner
        http2 = owner.http2 and _speaks_http2(transport)
        self._start(owner.native, transport, scope_of_transport(owner, transport), http2)

    async def _send_path(self, request: Any, path: str) -> None:
        # Called by the native half for http.response.pathsend. A file that cannot be opened raises
        # before anything is written.
        loop = self._owner.native.loop
        begun = False
        try:
            file = await loop.run_in_executor(None, _open_file, path)
            try:
                size = os.fstat(file.fileno()).st_size
                wanted = request._begin_file(size, False, True)
                begun = True
                if wanted:
                    await self._send_part(request, file, 0, size)
                request._end_file(size, False)
            finally:
                file.close()
        except BaseException:
            request._fail_file(begun)
            raise

    async def _send_file(self, request: Any, message: Any) -> None:
        # Called by the native half for http.response.zerocopysend.
        begun = False
        try:
            file = message["file"]
            more = bool(message.get("more_body", False))
            descriptor = file.fileno()
            seek = getattr(file, "seek", None) or functools.partial(os.lseek, descriptor)
            position = seek(0, os.SEEK_CUR)
            offset = message.get("offset")
            start = position if offset is None else int(offset)
            size = max(0, os.fstat(descriptor).st_size - start)
            count = message.get("count")
            if count is not None:
                if count < 0:
                    raise ValueError(f"the count of a part must be 0 or more, not {count}")
                size = min(size, int(count))
            wanted = request._begin_file(size, more, False)
            begun = True
            if wanted:
                try:
                    await self._send_part(request, file, start, size)
                finally:
                    # Without an offset the file is read on from where the part ends, as by
                    # sendfile(2).
                    seek(start + size if offset is None else position, os.SEEK_SET)
            request._end_file(size, more)
        except BaseException:
            request._fail_file(begun)
            raise
        if more:
            await request._room()

    async def _send_part(self, request: Any, file: Any, start: int, size: int) -> None:
        transport = self.transport
        if transport is None:
            raise ClientDisconnected("the client has closed the connection")
        try:
            if self._multiplexed or transport.get_extra_info("ssl_object") is not None:
                sent = await self._copy_file(request, file, start, size)
            else:
                sent = await self._owner.native.loop.sendfile(transport, file, start, size)
        except NotImplementedError:  # uvloop
            sent = await self._copy_file(request, file, start, size)
        except (OSError, RuntimeError) as error:
            if self.transport is not None and not self.transport.is_closing():
                raise
            raise ClientDisconnected("the client has closed the connection") from error
        if sent != size:
            name = getattr(file, "name", file)
            raise RuntimeError(f"{name} became shorter while it was sent")

    async def _copy_file(self, request: Any, file: Any, start: int, size: int) -> int:
        descriptor = file.fileno()
        left = size
        while left and (
            part := await self._owner.native.loop.run_in_executor(
                None, os.pread, descriptor, min(left, _PART), start + size - left
            )
        ):
            request._write_file(part)
            left -= len(part)
            await request._room()
        return size - left

    async def _run_websocket(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        # The native half runs it instead of the application.
        if self.transport is not None:
            await serve_websocket(self._owner, self.transport, scope, receive, send)

    def _on_websocket(self, scope: dict[str, Any], head: bytes, rest: bytes) -> bool:
        # Called by the native half. Returns whether the connection is no longer its own.
        owner = self._owner
        transport = self.transport
        if owner.websocket is None or transport is None:
            return False
        self._release()
        session = WebSocketSession(owner, owner.native.loop, transport, scope)
        session.start(self._context, head, rest)
        if owner.native.draining:  # its head began before, and nobody looks at it again
            session.shut_down()
        return True
