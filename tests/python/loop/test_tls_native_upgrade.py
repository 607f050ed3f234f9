"""loop.start_tls and StreamWriter.start_tls: TLS on an existing connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import penstock

from .certificates import client_context, server_context
from .conftest import Run
from .peers import BufferedRecorder, Recorder, until
from .tls_peers import tls_pair, tls_server


@asynccontextmanager
async def plain_pair(
    make_client: Any = Recorder, make_server: Any = Recorder
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield two connected protocols without TLS."""
    loop = asyncio.get_running_loop()
    made: list[Any] = []

    def factory() -> Any:
        made.append(make_server())
        return made[-1]

    server = await loop.create_server(factory, "127.0.0.1", 0)
    async with server:
        transport, client = await loop.create_connection(
            make_client, *server.sockets[0].getsockname()
        )
        while not made:  # noqa: ASYNC110 - the factory has no event
            await asyncio.sleep(0)
        await made[0].connected.wait()
        try:
            yield client, made[0]
        finally:
            transport.abort()
            made[0].transport.abort()


async def upgrade(client: Any, server: Any, **options: Any) -> tuple[Any, Any]:
    """Upgrade both ends concurrently, and return their new transports."""
    loop = asyncio.get_running_loop()
    return await asyncio.gather(
        loop.start_tls(
            client.transport, client, client_context(), server_hostname="localhost", **options
        ),
        loop.start_tls(server.transport, server, server_context(), server_side=True, **options),
    )


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
def test_both_ends_are_upgraded_without_another_connection_made(run: Run, make: Any) -> None:
    async def main() -> None:
        async with plain_pair(make, make) as (client, server):
            client.transport.write(b"plain")
            await server.received(5)
            outer, inner = await upgrade(client, server)
            assert outer is not client.transport
            assert outer.get_protocol() is client
            assert outer.get_extra_info("cipher") == inner.get_extra_info("cipher")
            assert outer.get_extra_info("peername") == inner.get_extra_info("sockname")
            outer.write(b"secret")
            assert await server.received(11) == b"plainsecret"
            inner.write(b"answer")
            assert await client.received(6) == b"answer"
            assert client.calls == ["made", "data"]
            outer.close()
            await server.closed.wait()
            await client.closed.wait()
            assert server.calls[-2:] == ["eof", "lost"]
            assert client.lost_with == server.lost_with == [None]

    run(main())


def test_streams_are_upgraded_on_both_ends(run: Run) -> None:
    big = bytes(range(256)) * 2000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"GO\n")
        await writer.start_tls(server_context())
        writer.write(await reader.readexactly(len(big)))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"STARTTLS\n")
            assert await reader.readline() == b"GO\n"
            await writer.start_tls(client_context(), server_hostname="localhost")
            assert isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)
            writer.write(big)
            await writer.drain()
            assert await reader.read() == big
            writer.close()
            await writer.wait_closed()

    run(main())


@pytest.mark.parametrize("limit", [1, 1000, 16384, 65536])
@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_a_stream_continues_after_data_that_arrive_with_the_end_of_the_handshake(
    run: Run, streams: Any, limit: int
) -> None:
    """More than twice the limit arrives before the upgrading task resumes."""
    done: asyncio.Future[bytes]

    async def serve(reader: Any, writer: Any) -> None:
        await reader.readuntil(b"S")
        writer.write(b"g")
        await writer.start_tls(server_context())
        done.set_result(await reader.readexactly(500_000))
        writer.close()

    async def main() -> None:
        nonlocal done
        done = asyncio.get_running_loop().create_future()
        server = await streams.start_server(serve, "127.0.0.1", 0, limit=limit)
        async with server:
            reader, writer = await streams.open_connection(*server.sockets[0].getsockname())
            writer.write(b"S")
            assert await reader.readexactly(1) == b"g"
            await writer.start_tls(client_context(), server_hostname="localhost")
            writer.write(b"n" * 500_000)
            assert await done == b"n" * 500_000
            assert await reader.read() == b""
            writer.close()

    run(main())


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_after_the_upgrade_the_reader_pauses_the_encrypted_transport(
    run: Run, streams: Any
) -> None:
    # asyncio's own streams do this since 3.14 (gh-152431).
    released: asyncio.Event
    limit, flood = 1000, 100_000

    async def serve(reader: Any, writer: Any) -> None:
        await reader.readuntil(b"S")
        writer.write(b"g")
        await writer.start_tls(server_context())
        writer.write(b"n" * flood)
        await released.wait()
        writer.close()

    async def main() -> None:
        nonlocal released
        released = asyncio.Event()
        server = await streams.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await streams.open_connection(
                *server.sockets[0].getsockname(), limit=limit
            )
            plain = writer.transport
            writer.write(b"S")
            assert await reader.readexactly(1) == b"g"
            await writer.start_tls(client_context(), server_hostname="localhost")
            assert reader._transport is writer.transport is not plain
            await until(lambda: not writer.transport.is_reading())
            assert plain.is_reading()
            assert len(await reader.readexactly(flood)) == flood
            released.set()
            assert await reader.read() == b""
            writer.close()

    run(main())


@pytest.mark.usefixtures("only_penstock")
def test_data_that_comes_with_the_end_of_the_handshake_is_answered_encrypted(
    run: Run, in_thread: Callable[..., Any]
) -> None:
    # On asyncio's own loop it comes before the task of start_tls() has run; not on uvloop.
    answers: list[bytes] = []

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.upgrade = asyncio.ensure_future(self.start_tls())

        async def start_tls(self) -> None:
            loop = asyncio.get_running_loop()
            self.transport = await loop.start_tls(
                self.transport, self, server_context(), server_side=True
            )

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    def client(port: int) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            while True:
                try:
                    engine.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    if outgoing.pending:
                        connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65536))
            engine.write(b"hello")
            connection.sendall(outgoing.read())  # with the end of the handshake
            while True:
                try:
                    answers.append(engine.read(5))
                    return
                except ssl.SSLWantReadError:
                    incoming.write(connection.recv(65536))

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        async with server:
            thread = in_thread(client, server.sockets[0].getsockname()[1])
            await asyncio.to_thread(thread.join)
        assert answers == [b"hello"]

    run(main())


@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_a_hello_that_arrives_before_the_upgrade_is_used(
    run: Run, only_penstock: None, streams: Any
) -> None:
    # asyncio's own loop does this since 3.13.10 (gh-142352).
    async def serve(reader: Any, writer: Any) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        # The hello is in the reader's buffer, after the line.
        await writer.start_tls(server_context())
        writer.write(b"got " + await reader.readline())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await streams.start_server(serve, "127.0.0.1", 0)
        async with server:
            ours = socket.create_connection(server.sockets[0].getsockname())
            ours.setblocking(False)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            await loop.sock_sendall(ours, b"STARTTLS\n" + outgoing.read())
            while True:
                incoming.write(await loop.sock_recv(ours, 65536))
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    continue
            tls.write(b"ping\n")
            await loop.sock_sendall(ours, outgoing.read())
            answer = b""
            while not answer.endswith(b"\n"):
                try:
                    answer += tls.read(100)
                except ssl.SSLWantReadError:
                    incoming.write(await loop.sock_recv(ours, 65536))
            assert answer == b"got ping\n"
            ours.close()

    run(main())


def test_a_failed_upgrade_leaves_no_cycle(run: Run, only_penstock: None) -> None:
    # asyncio's own loop leaves none since 3.14 (gh-159049).
    async def attempt(port: int) -> weakref.ref[asyncio.BaseTransport]:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        with contextlib.suppress(ssl.SSLCertVerificationError):
            await loop.start_tls(
                transport, protocol, client_context(), server_hostname="elsewhere.test"
            )
        return weakref.ref(transport)

    async def main() -> None:
        async with tls_server(asyncio.Protocol) as port:
            gc.collect()
            gc.disable()
            try:
                reference = await attempt(port)
                await asyncio.sleep(0)  # the callback that set the exception has returned
                assert reference() is None
            finally:
                gc.enable()

    run(main())


def test_tls_runs_inside_tls(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with tls_pair(Recorder, Recorder) as pair:
            outer, inner = await asyncio.gather(
                loop.start_tls(
                    pair.transport, pair.client, client_context(), server_hostname="localhost"
                ),
                loop.start_tls(
                    pair.server.transport, pair.server, server_context(), server_side=True
                ),
            )
            assert outer is not None
            assert inner is not None
            payload = bytes(range(256)) * 1000
            outer.write(payload)
            assert await pair.server.received(len(payload)) == payload
            inner.write(payload[::-1])
            assert await pair.client.received(len(payload)) == payload[::-1]
            assert outer.get_extra_info("peername") == pair.transport.get_extra_info("peername")
            outer.close()
            await pair.client.closed.wait()
            await pair.server.closed.wait()

    run(main())


def test_a_failed_upgrade_closes_the_connection(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with plain_pair() as (client, server):
            results = await asyncio.gather(
                loop.start_tls(
                    client.transport, client, client_context(), server_hostname="elsewhere.test"
                ),
                loop.start_tls(server.transport, server, server_context(), server_side=True),
                return_exceptions=True,
            )
            assert isinstance(results[0], ssl.SSLCertVerificationError)
            await client.closed.wait()
            assert isinstance(client.lost_with[0], ssl.SSLCertVerificationError)
            assert client.transport.is_closing()
            # The server sees the failure at once or, after its own handshake, at its next read.
            assert results[1] is None or isinstance(results[1], OSError | asyncio.Transport)
            await server.closed.wait()

    run(main())


def test_a_cancelled_upgrade_closes_the_connection(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with plain_pair() as (client, server):
            task = loop.create_task(
                loop.start_tls(
                    client.transport, client, client_context(), server_hostname="localhost"
                )
            )
            await server.received(10)  # the client's hello
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.transport.is_closing()
            await server.closed.wait()

    run(main())


@pytest.mark.parametrize("end", ["close", "abort"])
def test_an_upgrade_of_a_connection_that_this_side_closes_has_no_transport(
    run: Run, end: str
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for before in (True, False):
            async with plain_pair() as (client, server):

                async def close(client: Any = client, server: Any = server) -> None:
                    await server.received(10)  # the client's hello
                    getattr(client.transport, end)()

                closing = None if before else loop.create_task(close())
                if before:
                    getattr(client.transport, end)()
                upgraded = await loop.start_tls(
                    client.transport, client, client_context(), server_hostname="localhost"
                )
                assert upgraded is None, f"{before=}"
                if closing is not None:
                    await closing
                await server.closed.wait()

    run(main())


def test_an_upgrade_of_a_native_stream_that_is_closed_meanwhile_raises(
    run: Run, only_penstock: None
) -> None:
    async def main() -> None:
        greeted = asyncio.Event()
        done = asyncio.Event()

        async def serve(reader: Any, writer: Any) -> None:
            await reader.readexactly(10)
            greeted.set()
            await reader.read()
            writer.close()
            done.set()

        server = await penstock.start_server(serve, "127.0.0.1", 0)
        async with server:
            _, writer = await penstock.open_connection(*server.sockets[0].getsockname())
            upgrade = asyncio.create_task(
                writer.start_tls(client_context(), server_hostname="localhost")
            )
            await greeted.wait()
            writer.transport.close()
            with pytest.raises(ConnectionAbortedError, match="the connection is closed"):
                await upgrade
            await done.wait()

    run(main())


def test_an_upgrade_that_the_peer_ignores_times_out(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with plain_pair() as (client, server):
            with pytest.raises(ConnectionAbortedError, match="SSL handshake is taking longer"):
                await loop.start_tls(
                    client.transport,
                    client,
                    client_context(),
                    server_hostname="localhost",
                    ssl_handshake_timeout=0.02,
                )
            await server.closed.wait()

    run(main())


def test_invalid_arguments_of_start_tls_are_refused(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with plain_pair() as (client, _):
            wrong: Any = "context"
            with pytest.raises(TypeError, match="sslcontext is expected to be an instance"):
                await loop.start_tls(client.transport, client, wrong)
            with pytest.raises(TypeError, match="sslcontext is expected to be an instance"):
                await loop.start_tls(client.transport, client, None)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="is not supported by start_tls"):
                await loop.start_tls(asyncio.Transport(), client, client_context())
            assert not client.transport.is_closing()

    run(main())


def test_a_contexts_own_ssl_object_class_is_used(run: Run) -> None:
    read: list[int] = []

    class Counting(ssl.SSLObject):
        def read(self, len: int = 1024, buffer: Any = None) -> Any:
            read.append(len)
            return super().read(len, buffer) if buffer is not None else super().read(len)

    context = client_context()
    context.sslobject_class = Counting

    async def main() -> None:
        async with tls_pair(Recorder, Recorder, client=context) as pair:
            assert isinstance(pair.transport.get_extra_info("ssl_object"), Counting)
            pair.server.transport.write(b"counted")
            assert await pair.client.received(7) == b"counted"
            assert read

    run(main())
