"""Clients that take nothing of what is sent to them lose their connections: `timeout_send`."""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.settings
import pytest
import trustme

from penstock import asgi
from penstock.asgi._unix_sending import UnixSending

from .http2_client import Http2Client, request_fields
from .support import CLOSE, serving

Run = Callable[..., Any]

CERTIFICATES = trustme.CA()
PART = bytes(1 << 18)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Endless:
    """An application that sends until it cannot."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            message: dict[str, Any] = {"type": "websocket.send", "bytes": PART}
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            message = {"type": "http.response.body", "body": PART, "more_body": True}
        with pytest.raises(OSError, match="closed"):
            while True:
                await send(message)
        self.ended.set()


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CERTIFICATES.issue_cert("localhost").configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    CERTIFICATES.configure_trust(context)
    return context


async def opened(
    server: asgi.Server, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = "localhost" if tls is not None else None
    return await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname=name)


@pytest.mark.parametrize("kind", ["plain", "tls", "websocket", "websocket on tls"])
def test_a_client_that_takes_nothing(run: Run, kind: str) -> None:
    encrypted = kind.endswith("tls")

    async def main() -> None:
        app = Endless()
        options: dict[str, Any] = {"ssl": server_context()} if encrypted else {}
        async with serving(app, timeout_send=0.2, ws_ping_interval=None, **options) as server:
            _, writer = await opened(server, client_context() if encrypted else None)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            upgrades = kind.startswith("websocket")
            writer.write(UPGRADE if upgrades else b"GET / HTTP/1.1\r\n" + CLOSE)
            await app.ended.wait()
            writer.transport.abort()

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_client_of_http2_that_takes_nothing(run: Run, *, encrypted: bool) -> None:
    async def main() -> None:
        app = Endless()
        tls = None
        options: dict[str, Any] = {"http2": True, "timeout_http2_stall": None, "timeout_send": 0.2}
        if encrypted:
            tls = client_context()
            tls.set_alpn_protocols(["h2"])
            context = server_context()
            context.set_alpn_protocols(["h2"])
            options["ssl"] = context
        async with serving(app, **options) as server:
            client = Http2Client(*await opened(server, tls))
            window = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
            await client.start()
            client.h2.update_settings({window: (1 << 31) - 1})
            client.h2.increment_flow_control_window(1 << 30)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.ask(request_fields())
            await app.ended.wait()
            client.writer.transport.abort()

    run(main())


class Content:
    """An application that sends a large file in one message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(OSError, match="closed"):
            await send({"type": "http.response.pathsend", "path": str(self.path)})
        self.ended.set()


@pytest.mark.parametrize("kind", ["plain", "tls", "http2", "file"])
def test_a_client_on_a_unix_socket_that_takes_nothing(run: Run, kind: str, tmp_path: Path) -> None:
    """There is no TCP_USER_TIMEOUT: it had no effect there."""
    content = tmp_path / "content"
    content.write_bytes(b"")
    os.truncate(content, 1 << 26)

    async def main() -> None:
        app = Content(content) if kind == "file" else Endless()
        options: dict[str, Any] = {"timeout_send": 0.2, "lifespan": "off", "access_log": False}
        if kind == "tls":
            options["ssl"] = server_context()
        if kind == "http2":
            options |= {"http2": True, "timeout_http2_stall": None}
        path = str(tmp_path / "socket")
        async with asgi.serve(app, uds=path, **options):
            tls = client_context() if kind == "tls" else None
            name = "localhost" if tls else None
            reader, writer = await asyncio.open_unix_connection(path, ssl=tls, server_hostname=name)
            if kind == "http2":
                client = Http2Client(reader, writer)
                window = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
                await client.start({window: (1 << 31) - 1})
                client.h2.increment_flow_control_window(1 << 30)
                client.ask()
            else:
                writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await app.ended.wait()
            writer.transport.abort()

    run(main())


def test_a_process_without_descriptors_ends_such_clients_too(run: Run, tmp_path: Path) -> None:
    """The look at them needed a descriptor, and its failure ended all time-outs of the server."""

    async def main() -> None:
        app = Endless()
        path = str(tmp_path / "socket")
        options: dict[str, Any] = {"timeout_send": 0.2, "lifespan": "off", "access_log": False}
        async with asgi.serve(app, uds=path, **options):
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 14)
            writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            await reader.readuntil(b"\r\n\r\n")  # so the server has accepted it
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            try:
                await app.ended.wait()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            writer.transport.abort()

    run(main())


def test_a_slow_client_on_a_unix_socket_gets_all(run: Run, tmp_path: Path) -> None:
    """The clock of a client that takes something begins again, however the samples look."""
    size = 40 * len(PART)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for left in range(39, -1, -1):
            await send({"type": "http.response.body", "body": PART, "more_body": left > 0})

    async def main() -> None:
        path = str(tmp_path / "socket")
        async with asgi.serve(
            app, uds=path, timeout_send=60, lifespan="off", access_log=False
        ) as server:
            sending = UnixSending(60)
            server._unix_sending = sending
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 14)
            writer.write(b"GET / HTTP/1.0\r\n" + CLOSE)
            await reader.readuntil(b"\r\n\r\n")
            received = 0
            now = asyncio.get_running_loop().time()
            while part := await reader.read(len(PART)):
                received += len(part)
                now += 7.0  # of a clock of its own: much less than the time-out in each step
                sending.sweep(server.native.connections(), now)
            assert received == size
            writer.close()

    run(main())
