"""TLS over the loop's transports."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from .certificates import (
    client_context,
    demand_client_certificate,
    present_client_certificate,
    server_context,
)
from .conftest import Run
from .peers import Recorder

BIG = bytes(range(256)) * 8192
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def serving(
    handler: Handler = echo, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context or server_context())
    async with server:
        yield server.sockets[0].getsockname()[1]


async def open_tls(
    port: int, context: ssl.SSLContext | None = None, name: str = "localhost"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", port, ssl=context or client_context(), server_hostname=name
    )


def test_streams_are_echoed_exactly(run: Run) -> None:
    async def main() -> None:
        async with serving() as port:
            reader, writer = await open_tls(port)
            for size in (1, 100, 16384, 16385):
                writer.write(BIG[:size])
                assert await reader.readexactly(size) == BIG[:size]
            writer.write(BIG)
            assert await reader.readexactly(len(BIG)) == BIG
            writer.close()
            await writer.wait_closed()

    run(main())


def test_many_connections_work_concurrently(run: Run) -> None:
    async def one(port: int) -> None:
        reader, writer = await open_tls(port)
        writer.write(BIG[:100_000])
        assert await reader.readexactly(100_000) == BIG[:100_000]
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with serving() as port:
            await asyncio.gather(*(one(port) for _ in range(10)))

    run(main())


def test_extra_info_has_the_session(run: Run) -> None:
    async def main() -> None:
        async with serving() as port:
            context = client_context()
            _, writer = await open_tls(port, context)
            assert writer.get_extra_info("sslcontext") is context
            assert isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)
            assert ("DNS", "localhost") in writer.get_extra_info("peercert")["subjectAltName"]
            assert len(writer.get_extra_info("cipher")) == 3
            assert writer.get_extra_info("peername") == ("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()

    run(main())


def test_the_application_protocol_is_negotiated(run: Run) -> None:
    async def main() -> None:
        serverside, clientside = server_context(), client_context()
        serverside.set_alpn_protocols(["h2", "http/1.1"])
        clientside.set_alpn_protocols(["http/1.1"])
        async with serving(context=serverside) as port:
            _, writer = await open_tls(port, clientside)
            chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
            assert chosen == "http/1.1"
            writer.close()
            await writer.wait_closed()

    run(main())


def test_client_certificates_are_requested_and_presented(run: Run) -> None:
    names: list[Any] = []

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.append(writer.get_extra_info("peercert")["subjectAltName"])
        writer.write(b"x")
        writer.close()

    async def main() -> None:
        serverside, clientside = server_context(), client_context()
        demand_client_certificate(serverside)
        present_client_certificate(clientside)
        async with serving(tell, serverside) as port:
            reader, writer = await open_tls(port, clientside)
            assert await reader.read() == b"x"
            writer.close()
        assert names == [(("DNS", "client.test"),)]

    run(main())


def test_an_unknown_authority_is_refused(run: Run) -> None:
    async def main() -> None:
        async with serving() as port:
            with pytest.raises(ssl.SSLCertVerificationError):
                await open_tls(port, ssl.create_default_context())

    run(main())


def test_a_wrong_name_is_refused(run: Run) -> None:
    async def main() -> None:
        async with serving() as port:
            with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
                await open_tls(port, name="elsewhere.test")

    run(main())


def test_a_server_without_tls_is_detected(run: Run) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 hello\r\n" * 10)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        async with server:
            with pytest.raises(ssl.SSLError):
                await open_tls(server.sockets[0].getsockname()[1])

    run(main())


def test_a_handshake_that_does_not_end_times_out(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as silent,
            pytest.raises(ConnectionAbortedError, match="SSL handshake is taking longer"),
        ):
            await asyncio.open_connection(
                *silent.getsockname(),
                ssl=client_context(),
                server_hostname="localhost",
                ssl_handshake_timeout=0.01,
            )

    run(main())


def test_a_connection_is_upgraded_in_place(run: Run) -> None:
    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"GO\n")
        await writer.drain()
        await writer.start_tls(server_context())
        await echo(reader, writer)

    async def main() -> None:
        server = await asyncio.start_server(upgrade, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"STARTTLS\n")
            assert await reader.readline() == b"GO\n"
            await writer.start_tls(client_context(), server_hostname="localhost")
            assert writer.get_extra_info("cipher")
            writer.write(BIG[:50_000])
            assert await reader.readexactly(50_000) == BIG[:50_000]
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_tls_transport_has_no_half_close(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        async with serving() as port:
            transport, protocol = await loop.create_connection(
                Recorder, "127.0.0.1", port, ssl=client_context(), server_hostname="localhost"
            )
            assert isinstance(transport, asyncio.Transport)
            assert transport.can_write_eof() is False
            with pytest.raises(NotImplementedError):
                transport.write_eof()
            transport.write(b"secret")
            assert await protocol.received(6) == b"secret"
            transport.close()
            await protocol.closed.wait()
            assert protocol.calls[-1] == "lost"
            assert protocol.calls.count("lost") == 1
            assert protocol.lost_with == [None]

    run(main())


def test_a_peer_that_reads_slowly_pauses_the_protocol(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    go = asyncio.Event()
    total: list[int] = []

    async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        total.append(len(await reader.read(-1)))
        writer.close()

    async def main() -> None:
        async with serving(sink) as port:
            transport, protocol = await loop.create_connection(
                Recorder, "127.0.0.1", port, ssl=client_context(), server_hostname="localhost"
            )
            written = 0
            while not protocol.paused.is_set():
                transport.write(BIG)
                written += len(BIG)
            go.set()
            await protocol.resumed.wait()
            transport.close()
            await protocol.closed.wait()
            while not total:  # noqa: ASYNC110 - filled by the handler's last step
                await asyncio.sleep(0.001)
            assert total == [written]

    run(main())


def test_an_aborted_peer_ends_the_connection(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async def main() -> None:
        async with serving(vanish) as port:
            transport, protocol = await loop.create_connection(
                Recorder, "127.0.0.1", port, ssl=client_context(), server_hostname="localhost"
            )
            transport.write(b"x")
            await protocol.closed.wait()
            assert protocol.calls[-1] == "lost"

    run(main())
